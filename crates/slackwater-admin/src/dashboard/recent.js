// Requests sent to each replica recently, and failures. They cover a few seconds, because a single
// interval has too few requests to compare replicas of a large fleet.

/** Length of the window. */
export const RECENT_MS = 5_000;

export class Recent {
  constructor() {
    /** @type {{ms: number, sent: number[], failed: number[]}[]} the oldest first */
    this.kept = [];
    this.ms = 0;
    this.at = -1;
    /** @type {number[]} by replica */
    this.sent = [];
    /** @type {number[]} by replica */
    this.failed = [];
  }

  /** Adds counts, once for each moment. @param {number} at @param {number} ms that they cover @param {number[]} sent @param {number[]} failed */
  push(at, ms, sent, failed) {
    if (at === this.at) return;
    this.at = at;
    if (sent.length !== this.sent.length) {
      [this.kept, this.ms] = [[], 0];
      [this.sent, this.failed] = [sent.map(() => 0), sent.map(() => 0)];
    }
    this.kept.push({ ms, sent, failed });
    this.add(ms, sent, failed, 1);
    // Keeps the fewest intervals that cover the window.
    for (let [first] = this.kept; this.kept.length > 1 && this.ms - first.ms >= RECENT_MS; [first] = this.kept) {
      this.kept.shift();
      this.add(first.ms, first.sent, first.failed, -1);
    }
  }

  /** @param {number} ms @param {number[]} sent @param {number[]} failed @param {1 | -1} sign */
  add(ms, sent, failed, sign) {
    this.ms += sign * ms;
    sent.forEach((count, i) => (this.sent[i] += sign * count));
    failed.forEach((count, i) => (this.failed[i] += sign * count));
  }

  get seconds() {
    return Math.max(this.ms, 1) / 1000;
  }
}
