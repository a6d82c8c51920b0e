// The connection to `/events`: it comes back by itself, and says how it is.

/** @typedef {"connecting" | "live" | "silent" | "lost"} Link */

/** Ticks that are left out until the page says that none come. */
const SILENT_AFTER = 5;
const SILENT_MIN_MS = 5_000;
/** A connection that says nothing for so long is made anew: its other end may be gone without a word. */
const GIVE_UP_MS = 30_000;
const RETRY_MS = [1_000, 2_000, 5_000, 10_000];

export class Stream {
  /**
   * @param {string} path
   * @param {{fleet: (told: any) => void, tick: (told: any) => void, link: (link: Link, sinceMs: number) => void}} hear
   */
  constructor(path, hear) {
    this.path = path;
    this.hear = hear;
    this.intervalMs = 1_000;
    this.heardAt = Date.now();
    this.openedAt = Date.now();
    this.tries = 0;
    /** When the last tick that was heard was made. */
    this.newest = -1;
    /** @type {Link} */
    this.link = "connecting";
    /** @type {EventSource | null} */
    this.source = null;
    this.retry = 0;
    this.watch = setInterval(() => this.look(), 1_000);
    this.open();
  }

  open() {
    this.openedAt = Date.now();
    const source = new EventSource(this.path);
    this.source = source;
    source.addEventListener("fleet", (event) => {
      const fleet = JSON.parse(/** @type {MessageEvent} */ (event).data);
      this.intervalMs = fleet.interval_ms;
      this.hear.fleet(fleet);
    });
    source.addEventListener("tick", (event) => {
      const tick = JSON.parse(/** @type {MessageEvent} */ (event).data);
      // Whoever connects is told the last tick again, which may be old.
      const fresh = tick.at_ms !== this.newest;
      this.newest = tick.at_ms;
      this.tries = 0;
      if (fresh) {
        this.heardAt = Date.now();
        this.say("live");
      } else if (this.link !== "live") this.say("silent");
      this.hear.tick(tick);
    });
    source.addEventListener("error", () => {
      // Whether the browser tries again by itself is its own affair; so that it is the same
      // everywhere, we do.
      source.close();
      if (this.source !== source) return;
      this.source = null;
      this.say("lost");
      const wait = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)];
      this.retry = window.setTimeout(() => this.open(), wait);
    });
  }

  look() {
    const quiet = Date.now() - this.heardAt;
    if (this.link === "live" && quiet > Math.max(SILENT_MIN_MS, SILENT_AFTER * this.intervalMs)) this.say("silent");
    else if (this.link !== "live") this.hear.link(this.link, quiet);
    if (this.link === "silent" && this.source && Date.now() - this.openedAt > GIVE_UP_MS) {
      this.source.close();
      this.open();
    }
  }

  /** @param {Link} link */
  say(link) {
    if (link === this.link) return;
    this.link = link;
    this.hear.link(link, Date.now() - this.heardAt);
  }

  close() {
    clearInterval(this.watch);
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }
}
