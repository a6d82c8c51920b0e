// The connection to `/events`. It reconnects automatically, and has a state.

/** @typedef {"connecting" | "live" | "silent" | "lost"} Link */

/** Missing ticks after which the page shows that none arrive. */
const SILENT_AFTER = 5;
const SILENT_MIN_MS = 5_000;
/** A connection without data for this long is replaced: its peer may have disappeared without closing it. */
const GIVE_UP_MS = 30_000;
const RETRY_MS = [1_000, 2_000, 5_000, 10_000];

export class Stream {
  /**
   * @param {string} path
   * @param {{fleet: (told: any) => void, tick: (told: any) => void, link: (link: Link, sinceMs: number) => void}} handlers
   */
  constructor(path, handlers) {
    this.path = path;
    this.handlers = handlers;
    this.intervalMs = 1_000;
    this.receivedAt = Date.now();
    this.openedAt = Date.now();
    this.tries = 0;
    /** Timestamp of the newest tick received. */
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
      this.handlers.fleet(fleet);
    });
    source.addEventListener("tick", (event) => {
      const tick = JSON.parse(/** @type {MessageEvent} */ (event).data);
      // A new connection starts with the last tick, which may be old.
      const fresh = tick.at_ms !== this.newest;
      this.newest = tick.at_ms;
      this.tries = 0;
      this.handlers.tick(tick);
      // Each new tick sets the state, because the process may have another phase now.
      if (fresh) {
        this.receivedAt = Date.now();
        this.setLink("live");
      } else if (this.link !== "live") this.setLink("silent");
    });
    source.addEventListener("error", () => {
      // Browsers differ in whether they reconnect, so we do it ourselves.
      source.close();
      if (this.source !== source) return;
      this.source = null;
      this.setLink("lost");
      const wait = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)];
      this.retry = window.setTimeout(() => this.open(), wait);
    });
  }

  look() {
    const quiet = Date.now() - this.receivedAt;
    if (this.link === "live" && quiet > Math.max(SILENT_MIN_MS, SILENT_AFTER * this.intervalMs)) this.setLink("silent");
    else if (this.link !== "live") this.handlers.link(this.link, quiet);
    if (this.link === "silent" && this.source && Date.now() - this.openedAt > GIVE_UP_MS) {
      this.source.close();
      this.open();
    }
  }

  /** @param {Link} link */
  setLink(link) {
    this.link = link;
    this.handlers.link(link, Date.now() - this.receivedAt);
  }

  close() {
    clearInterval(this.watch);
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }
}
