// The last minutes as columns of numbers. The length is bounded; the oldest values are dropped.

export class Series {
  /** @param {number} capacity samples kept */
  constructor(capacity) {
    this.capacity = capacity;
    /** @type {number[]} */
    this.at = [];
    /** @type {Map<string, (number | null)[]>} */
    this.columns = new Map();
  }

  get length() {
    return this.at.length;
  }

  /**
   * Adds a sample; one that is not newer than the last is ignored.
   * @param {number} at ms
   * @param {Record<string, number | null>} values
   */
  push(at, values) {
    if (this.at.length && at <= this.at[this.at.length - 1]) return;
    for (const name of Object.keys(values)) {
      // A column that starts late is empty before.
      if (!this.columns.has(name)) this.columns.set(name, this.at.map(() => null));
    }
    this.at.push(at);
    for (const [name, column] of this.columns) column.push(values[name] ?? null);
    if (this.at.length > this.capacity) {
      this.at.shift();
      for (const column of this.columns.values()) column.shift();
    }
  }

  /** @param {string} name @returns {(number | null)[]} */
  column(name) {
    return this.columns.get(name) ?? [];
  }

  /** The value of a moment. @param {string} name @param {number} at ms */
  valueAt(name, at) {
    const place = this.at.indexOf(at);
    return place < 0 ? null : this.column(name)[place];
  }

  /** The newest value. @param {string} name */
  last(name) {
    return this.column(name).at(-1) ?? null;
  }

  /** The largest stored value, or the largest within the newest `windowMs`. @param {string} name @param {number} [windowMs] */
  most(name, windowMs = Infinity) {
    const from = (this.at.at(-1) ?? 0) - windowMs;
    let most = null;
    this.column(name).forEach((value, i) => {
      if (value !== null && this.at[i] >= from && (most === null || value > most)) most = value;
    });
    return most;
  }
}
