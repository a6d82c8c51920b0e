// The fleet of one service on the page: the chart, the values of the replica under the pointer, a
// table of the same values, and keyboard navigation.

import { arranged } from "./arrange.js";
import { begin } from "./canvas.js";
import * as cells from "./cells.js";
import * as columns from "./columns.js";
import { attributes, button, element, fillList, headRow, setShown, setText, widthOf } from "./dom.js";
import { share, shared } from "./shared.js";
import { Tip } from "./tip.js";
import { ago, carries, cost, count, moment, percent, plural, policyOf, rate, span, stateOf } from "./words.js";
import { troubleText } from "./model.js";

/** The most rows of the table; a filter finds the other replicas. */
const ROWS_MAX = 200;
/** With more replicas than this, the chart takes the width of the page. */
const WIDE_FROM = 40;

/**
 * @typedef {object} Column of the table
 * @property {string} head
 * @property {(replica: Replica) => string} write
 * @property {(service: import("./model.js").Service) => boolean} [shown] whether it has any value
 * @property {number} [from] the smallest width of the card that has room for it
 */

/** @typedef {import("./model.js").Replica} Replica */

/** @param {(replica: Replica) => boolean} has */
const any = (has) => (/** @type {import("./model.js").Service} */ service) => service.replicas.some(has);

/** @type {Column[]} after the name */
const COLUMNS = [
  { head: "state", write: (replica) => stateOf(replica.state).text },
  { head: "hot or cold", write: heatText, shown: (service) => service.limit !== null, from: 760 },
  { head: "in flight, reported", write: (replica) => (replica.reported ? count(replica.rif) : "–"), shown: any((replica) => replica.reported) },
  { head: "can carry", write: (replica) => carries(milli(replica.capacity)), shown: any((replica) => replica.capacity !== null), from: 620 },
  { head: "full", write: (replica) => percent(replica.full), shown: any((replica) => replica.capacity !== null), from: 620 },
  { head: "cost of one", write: (replica) => cost(replica.cost), shown: any((replica) => replica.cost !== null), from: 900 },
  { head: "in flight from here", write: (replica) => count(replica.ours), from: 560 },
  { head: "latency", write: (replica) => span(replica.latency), from: 460 },
  { head: "≈ p99 here", write: (replica) => span(replica.p99) },
  { head: "share", write: (replica) => percent(replica.share), from: 900 },
  { head: "requests/s", write: (replica) => rate(Math.round(replica.rate)), from: 400 },
  { head: "failed", write: (replica) => count(replica.failed) },
  { head: "trouble", write: (replica) => troubleText(replica.trouble), shown: any((replica) => troubleText(replica.trouble) !== ""), from: 620 },
];

export class FleetView {
  /**
   * @param {string} id
   * @param {(replica: number) => void} open a replica was chosen
   */
  constructor(id, open) {
    this.open = open;
    this.tall = false;
    /** @type {import("./model.js").Service | null} */
    this.service = null;
    /** @type {import("./model.js").Replica[]} */
    this.shown = [];
    /** @type {import("./frame.js").Frame | null} */
    this.frame = null;
    this.title = element("h3", "", "Fleet");
    this.title.id = `${id}-title`;
    this.summary = element("p", "summary");
    this.canvas = element("canvas");
    attributes(this.canvas, { "aria-hidden": "true" });
    // Two options in turn: a screen reader announces a different element, not a new text of the
    // same one.
    this.options = [0, 1].map((which) => attributes(element("div", "quiet"), { role: "option", id: `${id}-option-${which}`, "aria-selected": "false", hidden: "" }));
    this.plot = element("div", "plot", this.canvas, ...this.options);
    attributes(this.plot, { role: "listbox", tabindex: "0", "aria-labelledby": `${id}-title` });
    this.table = element("table", "figures-table");
    this.rows = element("tbody");
    this.head = headRow(["replica"]);
    this.table.append(this.head, this.rows);
    /** @type {Column[]} */
    this.columns = [];
    this.more = element("p", "summary");
    this.tableBox = element("div", "table-box", this.table, this.more);
    attributes(this.tableBox, { tabindex: "0", role: "region", "aria-label": "The fleet as a table" });
    this.none = element("div", "none");
    this.tip = new Tip(this.plot);
    this.key = element("ul", "fleet-key");
    attributes(this.key, { "aria-label": "What the picture shows" });
    this.root = element("section", "card fleet", element("div", "card-head", this.title, this.summary), this.plot, this.key, this.none, this.tableBox);
    attributes(this.root, { "aria-labelledby": `${id}-title` });
    this.plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => share({ pointed: this.at(event) }));
    this.plot.addEventListener("pointerleave", () => share({ pointed: null }));
    this.plot.addEventListener("click", (/** @type {PointerEvent} */ event) => {
      const found = this.at(event);
      if (found !== null) this.open(found);
    });
    this.plot.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.handleKey(event));
    this.plot.addEventListener("focus", () => {
      if (shared.pointed === null && this.shown.length) share({ pointed: (this.shown.find((r) => r.index === shared.chosen?.replica) ?? this.shown[0]).index });
    });
    this.plot.addEventListener("blur", () => share({ pointed: null }));
  }

  get picture() {
    return columns.hasRoom(widthOf(this.plot), this.shown.length) ? columns : cells;
  }

  /** @param {PointerEvent} event */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const place = this.picture.layout(box.width, this.shown.length, this.tall).placeAt(event.clientX - box.left, event.clientY - box.top);
    return place === null ? null : this.shown[place].index;
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (!this.shown.length || event.altKey || event.ctrlKey || event.metaKey) return;
    const { perRow } = this.picture.layout(widthOf(this.plot), this.shown.length, this.tall);
    const place = this.shown.findIndex((replica) => replica.index === shared.pointed);
    const last = this.shown.length - 1;
    const row = perRow >= this.shown.length ? 1 : perRow;
    /** @type {Record<string, number>} */
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, PageDown: 10 * row, PageUp: -10 * row, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const to = Math.min(last, Math.max(0, Math.max(place, 0) + steps[event.key]));
      share({ pointed: this.shown[place < 0 ? 0 : to].index });
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && place >= 0) {
      this.open(this.shown[place].index);
      event.preventDefault();
    }
  }

  /** @param {import("./model.js").Service} service @param {import("./frame.js").Frame} frame */
  show(service, frame) {
    this.service = service;
    this.frame = frame;
    this.shown = arranged(service.replicas, shared.sort, shared.filter);
    const out = service.replicas.filter((replica) => replica.out).length;
    const all = service.replicas.length;
    setText(this.summary, all ? `${count(all - out)} of ${plural(all, "replica")} ${all - out === 1 ? "takes" : "take"} requests${roomText(service)}` : "");
    this.root.parentElement?.classList.toggle("wide", shared.table || all > WIDE_FROM || !all);
    const some = this.shown.length > 0;
    this.sayNone(service);
    setShown(this.plot, !shared.table && some);
    setShown(this.key, !shared.table && some);
    fillList(this.key, keysOf(service, this.picture === cells), makeKey, (made, [kind, colour, text]) => {
      attributes(made.firstElementChild, { "data-kind": kind, "data-colour": colour });
      setText(made.lastElementChild, text);
    });
    setShown(this.tableBox, shared.table && some);
    if (shared.table && some) this.fillTable();
    this.repaint();
  }

  /** Shows why there is no chart, and what to do. @param {import("./model.js").Service} service */
  sayNone(service) {
    const texts = !service.tick || this.shown.length ? [] : service.replicas.length ? ["No replica matches the filter.", "Press Esc in the filter to clear it."] : emptyTexts(service);
    setShown(this.none, texts.length > 0);
    fillList(this.none, texts, () => element("p"), (made, text) => setText(made, text));
  }

  repaint() {
    const { service, frame } = this;
    if (!service || !frame) return;
    const pointed = this.shown.findIndex((replica) => replica.index === shared.pointed);
    const replica = this.shown[pointed];
    const idle = `${plural(this.shown.length, "replica")}. Click one, or use the arrow keys and Enter.`;
    this.showOption(replica, pointed, replica ? replicaText(replica, service.limit) : idle);
    if (shared.table || !this.shown.length) return this.tip.hide();
    const { picture } = this;
    const width = widthOf(this.plot);
    const layout = picture.layout(width, this.shown.length, this.tall);
    const draw = begin(this.canvas, width, layout.height);
    if (!draw) return;
    picture.paint(draw, width, {
      replicas: this.shown, limit: service.limit, frame, pointed: shared.pointed,
      chosen: shared.chosen?.replica ?? null, tall: this.tall,
    });
    if (replica) this.tip.show(replica.name, tipRows(replica, service.limit), ...layout.pointOf(pointed));
    else this.tip.hide();
  }

  /** Describes the replica under the pointer for screen readers. @param {import("./model.js").Replica | undefined} replica @param {number} place @param {string} text */
  showOption(replica, place, text) {
    const name = replica?.name ?? "";
    if (this.option === undefined || this.optionOf !== name) {
      const [now, before] = this.option === this.options[0] ? [1, 0] : [0, 1];
      this.option = this.options[now];
      setShown(this.option, true);
      setShown(this.options[before], false);
      attributes(this.plot, { "aria-activedescendant": this.option.id });
      this.optionOf = name;
    }
    setText(this.option, text);
    const posinset = replica ? String(place + 1) : null;
    attributes(this.option, { "aria-posinset": posinset, "aria-setsize": posinset && String(this.shown.length), "aria-selected": String(Boolean(replica)) });
  }

  fillTable() {
    const { shown, service } = this;
    if (!service) return;
    // The width of the card, since the table may not have been shown yet.
    const width = widthOf(this.root);
    const columns = COLUMNS.filter((column) => (column.from ?? 0) <= width && (column.shown?.(service) ?? true));
    // Rows have as many cells as there are columns, so other columns need new rows.
    if (columns.length !== this.columns.length || columns.some((column, i) => column !== this.columns[i])) {
      this.columns = columns;
      this.head.replaceWith((this.head = headRow(["replica", ...columns.map((column) => column.head)])));
      this.rows.replaceChildren();
    }
    const make = () => {
      const name = button("", "link", () => this.open(Number(made.dataset.replica)));
      const head = element("th", "", name);
      head.scope = "row";
      const made = element("tr", "", head, ...columns.map(() => element("td")));
      return made;
    };
    fillList(this.rows, shown.slice(0, ROWS_MAX), make, (made, replica) => {
      made.dataset.replica = String(replica.index);
      setText(made.cells[0].firstElementChild, replica.name);
      columns.forEach((column, i) => setText(made.cells[i + 1], column.write(replica)));
      made.classList.toggle("out", replica.out);
      made.classList.toggle("alarming", replica.alarming);
      made.classList.toggle("chosen", replica.index === shared.chosen?.replica);
    });
    setText(this.more, shown.length > ROWS_MAX ? `The first ${ROWS_MAX} of ${count(shown.length)}; a filter finds the others.` : "");
  }
}

/** A service without replicas: why, and what to do. @param {import("./model.js").Service} service */
function emptyTexts(service) {
  const source = service.told.discovery;
  if (!source || source.source === "list") return [`${service.name} has no replicas, so every request fails.`, "Add servers to its list of replicas in the configuration, and reload."];
  return [
    `${service.name} has no replicas, so every request fails.`,
    source.failure ? `They come from ${source.source}, which could not be read: ${source.failure}.` : `They come from ${source.source}, which names none. See what it answers.`,
  ];
}

/** The values of one replica, for the tip. @param {Replica} replica @param {number | null} limit @returns {[string, string][]} */
export function tipRows(replica, limit) {
  /** @type {[string, string][]} */
  const rows = [["state", standingText(replica)]];
  if (replica.alarming) rows.push(...downRows(replica));
  const trouble = troubleText(replica.trouble);
  if (trouble) rows.push(["trouble", trouble]);
  if (replica.reported) rows.push(["in flight, reported", `${count(replica.rif)}${limit === null ? "" : `; ${heatText(replica)}, limit ${limit}`}`]);
  rows.push(["in flight from here", count(replica.ours)]);
  if (replica.full !== null) rows.push(["can carry", `${carries(milli(replica.capacity))}; ${percent(replica.full)} full`]);
  rows.push(["latency", span(replica.latency)]);
  if (replica.p50 !== null) rows.push(["≈ p50, p99 here", `${span(replica.p50)}, ${span(replica.p99)}`]);
  rows.push(["requests/s", `${rate(Math.round(replica.rate))}; ${percent(replica.share)} of all`]);
  if (replica.failed) rows.push(["failed in 5 s", count(replica.failed)]);
  return rows;
}

/** Since when, and when it was last checked. @param {Replica} replica @returns {[string, string][]} */
export function downRows({ at: now, since, checked }) {
  /** @type {[string, string][]} */
  const rows = [["since", since === null ? "the start" : `${moment(since, now)}, ${ago(now - since)}`]];
  if (checked !== null) rows.push(["last check", `${ago(now - checked)} ago`]);
  return rows;
}

const makeKey = () => element("li", "", element("i", "key"), element("span"));

/**
 * The legend: kind of the mark, colour, label.
 * @param {import("./model.js").Service} service
 * @param {boolean} asCells
 * @returns {[string, string, string][]}
 */
export function keysOf({ limit, replicas }, asCells) {
  const reported = replicas.some((replica) => replica.reported);
  const has = (/** @type {(replica: Replica) => boolean} */ of) => replicas.some(of);
  /** @type {[string, string, string][]} */
  const keys = limit === null ? [["area", "cold", "takes requests"]] : [["area", "cold", "cold"], ["area", "hot", "hot"]];
  if (has((replica) => replica.out)) keys.push(["area", "second", "takes no requests"]);
  if (asCells) {
    if (has((replica) => replica.alarming || replica.failures > 0 || troubleText(replica.trouble) !== "")) keys.push(["frame", "alarm", "takes no requests, or fails"]);
    return keys;
  }
  if (has((replica) => replica.failures > 0)) keys.push(["area", "alarm", "failed"]);
  if (has((replica) => (replica.capacity ?? null) !== null)) keys.push(["line", "first", "what it can carry"]);
  keys.push(["dot", "cold", reported ? "latency that it expects" : "median seen here"], ["range", "cold", "≈ p50 to p99 seen here"]);
  return keys;
}

/** @param {number | null} requests */
export function milli(requests) {
  return requests === null ? null : requests * 1000;
}

/** @param {import("./model.js").Replica} replica */
export function heatText(replica) {
  return replica.hot === null ? "–" : replica.hot ? "hot" : "cold";
}

/** @param {import("./model.js").Service} service */
function roomText(service) {
  const { limit } = service;
  const able = service.replicas.filter((replica) => !replica.out);
  if (policyOf(service.policy).carried === "capacity" && able.length && able.every((replica) => replica.capacity !== null)) {
    const carried = able.reduce((sum, replica) => sum + Math.max(0, (replica.capacity ?? 0) - replica.rif), 0);
    return `; room for ${plural(Math.floor(carried), "request")} by what they can carry`;
  }
  // At a limit of 0 this number has no meaning.
  if (!limit) return "";
  const room = service.replicas.reduce((sum, replica) => sum + (replica.out ? 0 : Math.max(0, limit - replica.rif)), 0);
  return `; room for ${plural(room, "request")} below the limit`;
}

/** Its state with the reason, and with the share if that is limited. @param {import("./model.js").Replica} replica */
export function standingText({ state, allowed, why }) {
  const { sign, text, takes_requests: takes } = stateOf(state);
  const share = takes && allowed < 1 ? ` ${percent(allowed)}` : "";
  return `${sign} ${text}${share}${why ? `: ${why}` : ""}`.trim();
}

/** @param {import("./model.js").Replica} replica @param {number | null} limit */
export function replicaText(replica, limit) {
  const parts = [replica.name];
  parts.push(standingText(replica));
  const trouble = troubleText(replica.trouble);
  if (trouble) parts.push(`▲ ${trouble}`);
  const heat = replica.hot === null ? "" : replica.hot ? `, hot (limit ${limit})` : limit === null ? ", cold" : `, cold (limit ${limit})`;
  if (replica.reported) parts.push(`${count(replica.rif)} in flight by its report${heat}`);
  if (replica.full !== null) parts.push(`can carry ${carries(milli(replica.capacity))}: ${percent(replica.full)} full`);
  parts.push(`${count(replica.ours)} in flight from here`);
  parts.push(`latency ${span(replica.latency)}`);
  if (replica.cost !== null) parts.push(`a request costs ${cost(replica.cost)}`);
  parts.push(`${percent(replica.share)} of requests`);
  if (replica.failed) parts.push(`${count(replica.failed)} failed`);
  return parts.join(" · ");
}
