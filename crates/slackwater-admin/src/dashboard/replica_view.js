// The details of one replica: its state, its last minutes, its last decisions, and in the demo its
// troubles.

import { Chart } from "./chart.js";
import { attributes, button, element, fetchJson, fillList, row, setShown, setText } from "./dom.js";
import { downRows, heatText, milli, standingText } from "./fleet_view.js";
import { Series } from "./series.js";
import { TroubleKnobs } from "./trouble.js";
import { ago, carries, cost, count, percent, rate, shortCount, span, spanMark } from "./words.js";
import { troubleText } from "./model.js";

const PLACES = 2_000;
const HEIGHT = 110;

/** @param {import("./model.js").Service} service @param {number} index */
const keyOf = (service, index) => `${service.name}/${service.told.replicas[index]?.name}`;

/** @param {number | null | undefined} millirif */
const ofMilli = (millirif) => (millirif === null || millirif === undefined ? null : millirif / 1000);

export class ReplicaView {
  /**
   * @param {import("./trouble.js").Post} post
   * @param {() => void} close
   * @param {import("./decisions_view.js").DecisionsView} decisions of this replica
   */
  constructor(post, close, decisions) {
    this.title = element("h2");
    this.title.id = "replica-title";
    attributes(this.title, { tabindex: "-1" });
    this.said = element("p", "problem");
    attributes(this.said, { role: "alert" });
    this.facts = element("tbody");
    this.trouble = new TroubleKnobs(async (path, body) => {
      const problem = await post(path, body);
      setText(this.said, problem ?? "");
      return problem;
    }, "replica");
    this.troubleBox = element("section", "", element("h3", "", "Trouble, for both twins"), this.trouble.root, this.said);
    this.charts = {
      rif: new Chart("In flight", ["now", "most"], HEIGHT),
      latency: new Chart("Latency", ["now", "most"], HEIGHT),
      cost: new Chart("Cost of a request", ["now", "most"], HEIGHT),
      sent: new Chart("Requests per second", ["now", "most"], HEIGHT),
    };
    const charts = Object.values(this.charts).map((chart) => chart.root);
    const closeButton = button("Close", "knob", close);
    attributes(closeButton, { id: "replica-close" });
    this.root = element("aside", "sheet", element("div", "card-head", this.title, closeButton), element("table", "facts", this.facts), this.troubleBox, ...charts, decisions.root);
    this.decisions = decisions;
    attributes(this.root, { "aria-labelledby": "replica-title" });
    this.root.hidden = true;
    this.series = new Series(PLACES);
    this.key = "";
    this.lastAt = 0;
  }

  /**
   * Opens a replica and requests its history.
   * @param {import("./model.js").Service} service
   * @param {number} index
   * @param {boolean} [focus] whether it gets the focus
   */
  async open(service, index, focus = true) {
    const replica = service.told.replicas[index];
    const key = keyOf(service, index);
    this.series = new Series(PLACES);
    this.lastAt = 0;
    this.key = key;
    this.root.hidden = false;
    if (focus) this.title.focus();
    this.decisions.follow({ service: service.name, replica: replica.name });
    const query = new URLSearchParams({ service: service.name, replica: replica.name });
    const history = await fetchJson(`/history?${query}`);
    if (!history || this.key !== key) return;
    const later = this.series;
    this.series = new Series(PLACES);
    const seconds = history.interval_ms / 1000;
    for (let i = 0; i < history.at_ms.length; i++) {
      this.series.push(history.at_ms[i], {
        rif: history.rif[i], capacity: ofMilli(history.capacity_millirif?.[i]), cost: history.cost_us?.[i] ?? null, ours: history.in_flight[i], latency: history.latency_us[i],
        p50: history.p50_us[i], p99: history.p99_us[i], rate: history.sent[i] / seconds, failed: history.failed[i] / seconds,
      });
    }
    const names = [...later.columns.keys()];
    later.at.forEach((at, i) => this.series.push(at, Object.fromEntries(names.map((name) => [name, later.column(name)[i]]))));
  }

  /** Forgets its history, which is then requested again. */
  renew() {
    this.key = "";
  }

  close() {
    this.root.hidden = true;
    this.key = "";
    this.decisions.stop();
  }

  /**
   * @param {import("./model.js").Model} model
   * @param {import("./model.js").Service} service
   * @param {number} index
   */
  show(model, service, index) {
    const replica = service.replicas[index];
    if (this.root.hidden || !replica) return;
    // The view was opened for another replica meanwhile, or the process's clock was set back.
    if (keyOf(service, index) !== this.key || model.tick.at_ms < this.lastAt) void this.open(service, index, false);
    const { limit } = service;
    setText(this.title, replica.name);
    const facts = [
      ["service", service.name], ["address", replica.address],
      ["state", standingText(replica)],
      ...(replica.alarming ? downRows(replica) : [["in that state", replica.since === null ? "since the start" : `for ${ago(replica.at - replica.since)}`]]),
      ["share of requests", percent(replica.share)],
      ["share it may take", percent(replica.allowed)],
    ];
    if (replica.remedy) facts.splice(3, 0, ["what to do", replica.remedy]);
    if (replica.reported) facts.push(["last report", `${span((replica.age ?? 0) * 1000)} ago`]);
    if (limit !== null) facts.push(["hot or cold", `${heatText(replica)}; hot from ${limit} on`]);
    if (replica.capacity !== null) facts.push(["can carry", `${carries(milli(replica.capacity))} in flight; ${percent(replica.full)} full`]);
    if (replica.cost !== null) facts.push(["cost of a request", cost(replica.cost)]);
    const { tier, weight, zone } = service.told.replicas[index];
    if (zone) facts.push(["zone", zone]);
    if (tier > 0) facts.push(["tier", String(tier)]);
    if (weight !== 1) facts.push(["weight", String(weight)]);
    const trouble = troubleText(replica.trouble);
    if (trouble) facts.push(["trouble", trouble]);
    fillList(this.facts, facts, () => row("", [""]), (made, [name, value]) => {
      setText(made.cells[0], name);
      setText(made.cells[1], value);
    });
    setShown(this.troubleBox, Boolean(replica.trouble));
    if (replica.trouble) this.trouble.show(index, replica.name, model.fleet, replica.trouble);

    const at = model.tick.at_ms;
    if (at > this.lastAt) {
      this.lastAt = at;
      this.series.push(at, {
        rif: replica.reported ? replica.rif : null, capacity: replica.capacity, cost: replica.cost, ours: replica.ours, latency: service.tick.replicas.latency_us[index],
        p50: replica.p50, p99: replica.p99, rate: replica.rate, failed: replica.failures,
      });
    }
    this.paint(at);
  }

  /** @param {number} now */
  paint(now) {
    const { series } = this;
    /**
     * @param {Chart} chart
     * @param {[string, string, string, "line" | "thin" | "dash"][]} kinds
     * @param {(value: any) => string} write
     * @param {Partial<import("./trend.js").Trend>} look
     */
    const show = (chart, kinds, write, look) => {
      const lines = kinds.map(([, column, colour, kind]) => ({ series, column, colour, width: kind === "line" ? 1.8 : 1.1, dash: kind === "dash" ? [4, 3] : [] }));
      const entries = kinds.map(([name, column, colour, kind]) => ({ name, colour, kind, values: [write(series.last(column)), write(series.most(column))], valueAt: (/** @type {number} */ at) => write(series.valueAt(column, at)) }));
      chart.show({ lines, write: shortCount, now, ...look }, entries);
    };
    const ifAny = (/** @type {(value: number) => string} */ write) => (/** @type {number | null} */ value) => (value === null ? "–" : write(value));
    const known = (/** @type {string} */ column) => series.most(column) !== null;
    /** @type {[string, string, string, "line" | "thin" | "dash"][]} */
    const carried = known("capacity") ? [["can carry", "capacity", "alarm", "dash"]] : [];
    const tenths = (/** @type {number} */ value) => (Number.isInteger(value) ? count(value) : carries(milli(value)));
    show(this.charts.rif, [...(known("rif") ? [/** @type {[string, string, string, "line"]} */ (["as reported", "rif", "first", "line"])] : []), ...carried, ["from here", "ours", "second", "thin"]], ifAny(tenths), { least: 5 });
    setShown(this.charts.cost.root, known("cost"));
    if (known("cost")) show(this.charts.cost, [["as reported", "cost", "first", "line"]], ifAny(cost), { write: spanMark, least: 100 });
    show(this.charts.latency, [...(known("latency") ? [/** @type {[string, string, string, "line"]} */ (["as reported", "latency", "first", "line"])] : []), ["p50 here", "p50", "cold", "thin"], ["p99 here", "p99", "second", "dash"]], span, { log: true, write: spanMark, least: 10_000 });
    show(this.charts.sent, [["sent", "rate", "ink", "line"], ["failed", "failed", "alarm", "line"]], ifAny(rate), { least: 1 });
  }
}
