// The fleet of one service on the page: the picture, what is said of the replica pointed at, the
// same as a table, and the keys that go through it.

import { ORDERS, arranged } from "./arrange.js";
import { begin } from "./canvas.js";
import * as cells from "./cells.js";
import * as columns from "./columns.js";
import { attributes, button, element, fillList, headRow, setShown, setText, widthOf } from "./dom.js";
import { share, shared } from "./shared.js";
import { carries, cost, count, percent, plural, policyOf, rate, span, stateOf } from "./words.js";
import { troubleText } from "./model.js";

/** Rows of the table at most; a filter finds the others. */
const ROWS_MAX = 200;

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
    this.readout = element("p", "readout");
    this.canvas = element("canvas");
    attributes(this.canvas, { "aria-hidden": "true" });
    // In turn: a reader tells of another element, not of the same one with another text.
    this.options = [0, 1].map((which) => attributes(element("div", "quiet"), { role: "option", id: `${id}-option-${which}`, "aria-selected": "false", hidden: "" }));
    this.plot = element("div", "plot", this.canvas, ...this.options);
    attributes(this.plot, { role: "listbox", tabindex: "0", "aria-labelledby": `${id}-title` });
    this.table = element("table", "figures-table");
    this.rows = element("tbody");
    this.table.append(headRow(["replica", "state", "hot or cold", "in flight, reported", "can carry", "full", "cost of one", "ours", "latency", "≈ p99 here", "share", "requests/s", "failed", ""]), this.rows);
    this.more = element("p", "summary");
    this.tableBox = element("div", "table-box", this.table, this.more);
    attributes(this.tableBox, { tabindex: "0", role: "region", "aria-label": "The fleet as a table" });
    this.none = element("p", "none");
    this.key = element("ul", "fleet-key");
    attributes(this.key, { "aria-label": "What the picture shows" });
    this.root = element("section", "card fleet", element("div", "card-head", this.title, this.summary), this.readout, this.plot, this.key, this.none, this.tableBox);
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
    return this.shown.length > columns.COLUMNS_MAX ? cells : columns;
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
    this.table.classList.toggle("no-capacity", !tellsCapacity(service));
    setText(this.summary, `${plural(all - out, "replica")} of ${count(all)} may be chosen${roomText(service)}`);
    const empty = !service.tick ? "" : !all ? "There are no replicas: nobody can answer requests." : !this.shown.length ? "No replica matches the filter." : "";
    setText(this.none, empty);
    setShown(this.none, empty !== "");
    setShown(this.plot, !shared.table && this.shown.length > 0);
    setShown(this.readout, !shared.table && this.shown.length > 0);
    setShown(this.key, !shared.table && this.shown.length > 0);
    fillList(this.key, keysOf(service, this.picture === cells), makeKey, (made, [kind, colour, text]) => {
      attributes(made.firstElementChild, { "data-kind": kind, "data-colour": colour });
      setText(made.lastElementChild, text);
    });
    setShown(this.tableBox, shared.table && this.shown.length > 0);
    if (shared.table) this.fillTable();
    this.repaint();
  }

  repaint() {
    const { service, frame } = this;
    if (!service || !frame) return;
    const pointed = this.shown.findIndex((replica) => replica.index === shared.pointed);
    const replica = this.shown[pointed];
    const order = ORDERS.find(([key]) => key === shared.sort)?.[1] ?? "";
    const idle = `${plural(this.shown.length, "replica")} ${shared.sort === "given" ? order : `by ${order}`}. Point at one, or use the arrow keys; Enter opens it.`;
    setText(this.readout, replica ? replicaText(replica, service.limit) : idle);
    this.readout.classList.toggle("idle", !replica);
    this.showOption(replica, pointed, replica ? replicaText(replica, service.limit) : idle);
    if (shared.table || !this.shown.length) return;
    const width = widthOf(this.plot);
    const draw = begin(this.canvas, width, this.picture.layout(width, this.shown.length, this.tall).height);
    if (!draw) return;
    this.picture.paint(draw, width, {
      replicas: this.shown, limit: service.limit, frame, pointed: shared.pointed, fleet: service.replicas.length,
      chosen: shared.chosen?.replica ?? null, tall: this.tall,
    });
  }

  /** What a screen reader has of the replica pointed at. @param {import("./model.js").Replica | undefined} replica @param {number} place @param {string} text */
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
    const { shown } = this;
    const make = () => {
      const name = button("", "link", () => this.open(Number(made.dataset.replica)));
      const head = element("th", "", name);
      head.scope = "row";
      const made = element("tr", "", head, ...Array.from({ length: 13 }, () => element("td")));
      return made;
    };
    fillList(this.rows, shown.slice(0, ROWS_MAX), make, (made, replica) => {
      made.dataset.replica = String(replica.index);
      setText(made.cells[0].firstElementChild, replica.name);
      const texts = [
        stateOf(replica.state).text, heatText(replica), replica.reported ? count(replica.rif) : "–", carries(milli(replica.capacity)), percent(replica.full), cost(replica.cost),
        count(replica.ours), span(replica.latency),
        span(replica.p99), percent(replica.share), rate(replica.rate), count(replica.failed), troubleText(replica.trouble),
      ];
      texts.forEach((text, i) => setText(made.cells[i + 1], text));
      made.classList.toggle("out", replica.out);
    });
    setText(this.more, shown.length > ROWS_MAX ? `The first ${ROWS_MAX} of ${count(shown.length)}; a filter finds the others.` : "");
  }
}

const makeKey = () => element("li", "", element("i", "key"), element("span"));

/**
 * What is drawn how: the kind of the mark, its colour, its words.
 * @param {import("./model.js").Service} service
 * @param {boolean} asCells
 * @returns {[string, string, string][]}
 */
export function keysOf({ limit, replicas }, asCells) {
  const reported = replicas.some((replica) => replica.reported);
  const out = replicas.some((replica) => replica.out);
  const troubled = out || replicas.some((replica) => troubleText(replica.trouble));
  /** @type {[string, string, string][]} */
  const keys = [];
  if (!reported) keys.push(["area", "second", "ours in flight; they report nothing"]);
  else if (limit === null) keys.push(["area", "second", "in flight, by its last report"]);
  else keys.push(["area", "cold", "cold"], ["area", "hot", "hot: in flight, by its last report"]);
  if (!asCells && replicas.some((replica) => (replica.capacity ?? null) !== null)) keys.push(["frame", "first", "what it can carry"]);
  if (reported && !asCells) keys.push(["thin", "ink", "ours there now"]);
  if (asCells && troubled) keys.push(["frame", "alarm", "cannot be chosen, or in trouble"]);
  if (!asCells && limit !== null && out) keys.push(["pale", "second", "cannot be chosen"]);
  if (!asCells) keys.push(["dot", "second", reported ? "latency that it expects" : "median seen here"], ["range", "second", "≈ p50 to p99 seen here"]);
  return keys;
}

/** @param {number | null} requests */
export const milli = (requests) => (requests === null ? null : requests * 1000);

/** Whether any of its replicas says what it can carry. @param {import("./model.js").Service} service */
const tellsCapacity = (service) => service.replicas.some((replica) => replica.capacity !== null);

/** @param {import("./model.js").Replica} replica */
export const heatText = (replica) => (replica.hot === null ? "–" : replica.hot ? "hot" : "cold");

/** @param {import("./model.js").Service} service */
function roomText(service) {
  const { limit } = service;
  const able = service.replicas.filter((replica) => !replica.out);
  if (policyOf(service.policy).carried === "capacity" && able.length && able.every((replica) => replica.capacity !== null)) {
    const carried = able.reduce((sum, replica) => sum + Math.max(0, (replica.capacity ?? 0) - replica.rif), 0);
    return `; room for ${plural(Math.floor(carried), "request")} by what they can carry`;
  }
  // At a limit of 0 nobody has room, and everybody has.
  if (!limit) return "";
  const room = service.replicas.reduce((sum, replica) => sum + (replica.out ? 0 : Math.max(0, limit - replica.rif)), 0);
  return `; room for ${plural(room, "request")} below the limit`;
}

/** Its state, with the share where it is not all, and why. @param {import("./model.js").Replica} replica */
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
  parts.push(replica.reported ? `${count(replica.rif)} in flight by its report${heat}` : "never reported");
  if (replica.full !== null) parts.push(`can carry ${carries(milli(replica.capacity))}: ${percent(replica.full)} full`);
  parts.push(`${count(replica.ours)} of ours there`);
  parts.push(`latency ${span(replica.latency)}`);
  if (replica.cost !== null) parts.push(`a request costs ${cost(replica.cost)}`);
  parts.push(`${percent(replica.share)} of requests`);
  if (replica.failed) parts.push(`${count(replica.failed)} failed`);
  return parts.join(" · ");
}
