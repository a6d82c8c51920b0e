// The last minutes: latency, requests, errors, picks by reason, probes, hedges and retries.

import { Chart } from "./chart.js";
import { attributes, button, element, setShown, setText } from "./dom.js";
import { share, shared } from "./shared.js";
import { percent, rate, reasonName, shortCount, span, spanMark } from "./words.js";

/** @typedef {import("./model.js").Service} Service */
/** @typedef {import("./trend.js").Line} Line */
/** @typedef {import("./chart.js").Entry} Entry */

/** The time ranges. @type {[number, string][]} */
const RANGES = [[60_000, "1 min"], [300_000, "5 min"], [900_000, "15 min"]];

/** Buttons that choose how much of the past the charts show. */
export class Ranges {
  constructor() {
    this.buttons = RANGES.map(([ms, text]) => attributes(button(text, "knob", () => share({ windowMs: ms })), { "data-ms": String(ms) }));
    this.root = element("div", "ranges", ...this.buttons);
    attributes(this.root, { role: "group", "aria-label": "Time range" });
    this.show();
  }

  show() {
    for (const made of this.buttons) attributes(made, { "aria-pressed": String(Number(made.getAttribute("data-ms")) === shared.windowMs) });
  }
}

const NOW_MOST = ["now", "most"];

/** A line's current value, its maximum, and its value at a moment. @param {Service} service @param {string} column @param {(value: any) => string} write */
const nowAndMost = ({ series }, column, write) => ({
  values: [write(series.last(column)), write(series.most(column, shared.windowMs))],
  valueAt: (/** @type {number} */ at) => write(series.valueAt(column, at)),
});
const ifAny = (/** @type {(value: number) => string} */ write) => (/** @type {number | null} */ value) => (value === null ? "–" : write(value));

/** Latency of one service: three quantiles. */
class Latency {
  constructor() {
    this.chart = new Chart("Latency", NOW_MOST);
  }

  /** @param {Service} service @param {number} now */
  show(service, now) {
    const { series } = service;
    /** @type {[string, string, string, number, Entry["kind"]][]} */
    const kinds = [["p99.9", "p999", "second", 1.2, "thin"], ["p99", "p99", "first", 2.2, "line"], ["p50", "p50", "cold", 1.6, "line"]];
    const lines = kinds.map(([, column, colour, width]) => ({ series, column, colour, width }));
    const entries = kinds.map(([name, column, colour, , kind]) => ({ name, colour, kind, ...nowAndMost(service, column, span) }));
    this.chart.show({ lines, log: true, write: spanMark, least: 10_000, now }, entries);
  }
}

const STACK = { cold: ["cold", 1], hot: ["hot", 1] };
/** @type {[number, Entry["kind"]][]} */
const PALE = [[0.8, "area"], [0.5, "pale"], [0.3, "paler"]];

/** Picks by reason, as stacked areas. */
class Picks {
  /** @param {string} title */
  constructor(title) {
    this.chart = new Chart(title, ["now", "part"]);
  }

  /** @param {Service} service @param {number} now */
  show(service, now) {
    const { series } = service;
    const columns = [...series.columns.keys()].filter((name) => name.startsWith("picks."));
    const reasons = columns.map((name) => name.slice("picks.".length));
    const rank = (/** @type {string} */ reason) => ["cold", "hot"].indexOf(reason) + 1 || 9;
    reasons.sort((a, b) => rank(a) - rank(b));
    const sum = reasons.reduce((sum, reason) => sum + (series.last(`picks.${reason}`) ?? 0), 0);
    let others = 0;
    /** @type {Line[]} */
    const lines = [];
    /** @type {Entry[]} */
    const entries = [];
    for (const reason of reasons) {
      const known = STACK[/** @type {keyof STACK} */ (reason)];
      const [alpha, kind] = known ? [1, /** @type {Entry["kind"]} */ ("area")] : PALE[Math.min(others++, 2)];
      const colour = known ? String(known[0]) : "second";
      const last = series.last(`picks.${reason}`) ?? 0;
      lines.push({ series, column: `picks.${reason}`, colour, width: alpha });
      entries.push({ name: reasonName(reason, service.policy), colour, kind, values: [rate(last), sum ? percent(last / sum) : "–"], valueAt: (at) => ifAny(rate)(series.valueAt(`picks.${reason}`, at)) });
    }
    this.chart.show({ lines, stacked: true, write: shortCount, now }, entries.reverse());
  }
}

/** Values of one service by kind, as lines. */
class Kinds {
  /**
   * @param {string} title
   * @param {[string, string, string, Entry["kind"]][]} kinds their words, columns, colours
   * @param {Partial<import("./trend.js").Trend>} [look]
   * @param {(value: number) => string} [write]
   * @param {number} [always] number of kinds that are shown even if they are 0
   */
  constructor(title, kinds, look = {}, write = rate, always = 2) {
    this.chart = new Chart(title, NOW_MOST);
    this.kinds = kinds;
    this.look = look;
    this.write = write;
    this.always = always;
  }

  /** @param {Service} service @param {number} now */
  show(service, now) {
    const { series } = service;
    const kinds = this.kinds.filter(([, column], i) => i < this.always || (series.most(column) ?? 0) > 0);
    const lines = kinds.map(([, column, colour, kind]) => ({ series, column, colour, width: kind === "line" ? 1.8 : 1.2, dash: kind === "dash" ? [4, 3] : [] }));
    const entries = kinds.map(([name, column, colour, kind]) => ({ name, colour, kind, ...nowAndMost(service, column, ifAny(this.write)) }));
    this.chart.show({ lines, write: shortCount, now, ...this.look }, entries);
  }
}

const errors = () => new Kinds("Errors", [["5xx, or no answer", "errors", "alarm", "line"]], { least: 0.01, write: percent }, percent);
const requests = () => new Kinds("Requests per second", [["ended", "rate", "ink", "line"], ["failed", "failures", "alarm", "line"]], { least: 1 }, rate, 1);
const probes = () => new Kinds("Probes per second", [
  ["sent", "probes.sent", "second", "line"], ["answered", "probes.answered", "cold", "thin"], ["lost", "probes.lost", "alarm", "line"],
  ["answered late", "probes.answered_late", "hot", "dash"], ["skipped", "probes.skipped", "second", "dash"],
]);
const copies = () => new Kinds("Copies and retries per second", [
  ["second copies", "hedges", "first", "line"], ["retries", "retries", "hot", "line"], ["queued", "queued", "second", "dash"], ["rejected", "shed", "alarm", "line"],
]);

/** The charts of one service. */
export class ServiceTrends {
  constructor() {
    this.copies = copies();
    this.probes = probes();
    this.parts = [new Latency(), requests(), errors(), new Picks("What decided, picks per second"), this.probes, this.copies];
    this.root = element("div", "trends", ...this.parts.map((part) => part.chart.root));
  }

  /** @param {Service[]} services the first is shown @param {number} now */
  show([service], now) {
    const any = (/** @type {string[]} */ columns) => columns.some((column) => (service.series.most(column) ?? 0) > 0);
    setShown(this.copies.chart.root, any(["hedges", "retries", "queued", "shed"]));
    setShown(this.probes.chart.root, any(["probes.sent"]));
    for (const part of this.parts) if (!part.chart.root.hidden) part.show(service, now);
  }

  repaint() {
    for (const part of this.parts) part.chart.repaint();
  }
}

/** Two services in one chart, by one quantile or share. */
class Both {
  /** @param {string} title @param {string[]} columns the first strong, the second thin @param {Partial<import("./trend.js").Trend>} look @param {(value: any) => string} write */
  constructor(title, columns, look, write, height = 190) {
    this.chart = new Chart(title, NOW_MOST, height);
    this.columns = columns;
    this.look = look;
    this.write = write;
  }

  /** @param {Service[]} services @param {number} now */
  show(services, now) {
    /** @type {Line[]} */
    const lines = [];
    /** @type {Entry[]} */
    const entries = [];
    services.forEach((service, index) => {
      this.columns.forEach((column, thin) => {
        const colour = index === 0 ? "first" : "second";
        // The first service is drawn last, on top.
        lines.unshift({ series: service.series, column, colour, width: thin ? 1 : 2.2, dash: index === 0 ? [] : [6, 3] });
        const name = this.columns.length > 1 ? `${service.name}, ${column}` : service.name;
        const kind = thin ? "thin" : index === 0 ? "line" : "dash";
        entries.push({ name, colour, kind, ...nowAndMost(service, column, this.write) });
      });
    });
    const [{ series }] = services;
    entries.push({ name: "a replica is in trouble", colour: "alarm", kind: "paler", values: [series.last("trouble") ? "yes" : "no", ""] });
    this.chart.show({ lines, now, band: { series, column: "trouble" }, write: shortCount, ...this.look }, entries);
  }
}

/** The charts of the demo: both sides in the same chart where they are compared. */
export class DemoTrends {
  constructor() {
    const latency = new Both("Latency of both sides", ["p99", "p50"], { log: true, write: spanMark, least: 10_000 }, span);
    const errors = new Both("Errors of both sides", ["errors"], { write: percent, least: 0.01 }, percent);
    latency.chart.root.classList.add("wide");
    this.both = [latency, errors];
    this.picks = [new Picks(""), new Picks("")];
    this.probes = probes();
    const charts = [...this.both, ...this.picks, this.probes].map((part) => part.chart.root);
    this.root = element("div", "trends", ...charts);
  }

  /** @param {Service[]} services @param {number} now */
  show(services, now) {
    for (const part of this.both) part.show(services, now);
    this.picks.forEach((part, index) => {
      setText(part.chart.title, `What decided: ${services[index].name}, picks per second`);
      part.show(services[index], now);
    });
    const probing = services.find((service) => (service.series.most("probes.sent") ?? 0) > 0);
    setShown(this.probes.chart.root, Boolean(probing));
    if (probing) {
      setText(this.probes.chart.title, `Probes per second: ${probing.name}`);
      this.probes.show(probing, now);
    }
  }

  repaint() {
    for (const part of [...this.both, ...this.picks, this.probes]) part.chart.repaint();
  }
}
