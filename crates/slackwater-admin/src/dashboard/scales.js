// Scales of charts. Requests in flight have a square root scale, so that values of 3 and 300 are
// both visible; latency has a logarithmic scale.

/**
 * Values from 0 to `most`, by the square root: 0 is 0, `most` is `length`; larger values are clamped.
 * @param {number} most above 0
 * @param {number} length
 * @returns {(value: number) => number}
 */
export const rootScale = (most, length) => (value) => Math.sqrt(Math.min(Math.max(value, 0), most) / most) * length;

/**
 * Values from `least` to `most`, by the logarithm; values outside are clamped.
 * @param {number} least above 0
 * @param {number} most above `least`
 * @param {number} length
 * @returns {(value: number) => number}
 */
export const logScale = (least, most, length) => {
  const whole = Math.log(most / least);
  return (value) => (Math.log(Math.min(Math.max(value, least), most) / least) / whole) * length;
};

/**
 * The smallest of 1, 2, 5, 10, 20, 50 … that is not below `value`.
 * @param {number} value
 */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 5, 10].find((step) => step * power >= value * (1 - 1e-9));
  return (found ?? 10) * power;
}

/**
 * The largest of 1, 2, 5, 10, 20, 50 … that is not above `value`, which is above 0.
 * @param {number} value
 */
export function roundDown(value) {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  const found = [5, 2, 1].find((step) => step * power <= value * (1 + 1e-9));
  return (found ?? 1) * power;
}

/**
 * Marks for a logarithmic scale: powers of ten at least `gap` apart; with more room, also 2 and 5 times each.
 * @param {number} least
 * @param {number} most
 * @param {number} length
 * @param {number} gap
 */
export function logMarks(least, most, length, gap) {
  const decade = length / Math.log10(most / least);
  const steps = decade * Math.log10(2) >= gap ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(gap / decade));
  const found = [];
  const first = Math.floor(Math.log10(least) + 1e-9);
  for (let power = first; 10 ** power <= most * (1 + 1e-9); power++) {
    if (steps.length === 1 && (power - first) % every !== 0 && every > 1) continue;
    for (const step of steps) {
      // Division, so that 0.1 is exactly 0.1.
      const value = power < 0 ? step / 10 ** -power : step * 10 ** power;
      if (value >= least * (1 - 1e-9) && value <= most * (1 + 1e-9)) found.push(value);
    }
  }
  return found;
}

/**
 * Marks for a root scale: 0, `most`, and the values of 1, 2, 5, 10 … in between that are at least `gap` apart.
 * @param {number} most
 * @param {number} length
 * @param {number} gap
 */
export function rootMarks(most, length, gap) {
  const scale = rootScale(most, length);
  const found = [0];
  let last = 0;
  for (let power = 1; power <= most; power *= 10) {
    for (const step of [1, 2, 5]) {
      const value = step * power;
      const at = scale(value);
      if (value < most && at - last >= gap && length - at >= gap) {
        found.push(value);
        last = at;
      }
    }
  }
  found.push(most);
  return found;
}

/**
 * Marks for a linear scale from 0 to about `most`: at most four round numbers.
 * @param {number} most
 */
export function linearMarks(most) {
  const step = roundUp(most / 3);
  const found = [];
  for (let at = 0; at <= most + step * 1e-6; at += step) found.push(at);
  return found;
}

/**
 * A maximum that follows the values up at once, and down only when they have stayed far below it, so that a chart does not
 * jitter with every tick.
 */
export class CalmMost {
  /** @param {number} least it never falls below this */
  constructor(least) {
    this.least = least;
    this.most = least;
    this.below = 0;
  }

  /** @param {number} value the largest to be shown @returns {number} */
  follow(value) {
    const wanted = Math.max(this.least, roundUp(value));
    if (wanted >= this.most) {
      this.most = wanted;
      this.below = 0;
    } else if (++this.below >= CalmMost.PATIENCE) {
      this.most = wanted;
      this.below = 0;
    }
    return this.most;
  }
}
CalmMost.PATIENCE = 20;
