// The fleet of one service on the page: the picture, what is said of the replica pointed at, the same as a table, and the
// keys that go through it.

import { arranged } from "./arrange.js";
import { begin } from "./canvas.js";
import * as cells from "./cells.js";
import * as columns from "./columns.js";
import { attributes, button, element, fillList, headRow, setShown, setText } from "./dom.js";
import { share, shared } from "./shared.js";
import { count, percent, plural, rate, span, stateOf } from "./words.js";
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
    this.option = element("div", "quiet");
    attributes(this.option, { role: "option", id: `${id}-option`, "aria-selected": "false" });
    this.plot = element("div", "plot", this.canvas, this.option);
    attributes(this.plot, { role: "listbox", tabindex: "0", "aria-labelledby": `${id}-title`, "aria-activedescendant": `${id}-option` });
    this.table = element("table", "figures-table");
    this.rows = element("tbody");
    this.table.append(headRow(["replica", "state", "hot or cold", "in flight", "ours", "latency", "p99 here", "share", "requests/s", "failed", ""]), this.rows);
    this.more = element("p", "summary");
    this.tableBox = element("div", "table-box", this.table, this.more);
    attributes(this.tableBox, { tabindex: "0", role: "region", "aria-label": "The fleet as a table" });
    this.none = element("p", "none");
    this.root = element("section", "card fleet", element("div", "card-head", this.title, this.summary), this.readout, this.plot, this.none, this.tableBox);
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
    const { perRow } = this.picture.layout(this.canvas.clientWidth, this.shown.length, this.tall);
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
    const out = service.replicas.filter((replica) => stateOf(replica.state).out).length;
    const all = service.replicas.length;
    setText(this.summary, `${plural(all - out, "replica")} of ${count(all)} may be chosen${roomText(service)}`);
    const empty = !service.tick ? "" : !all ? "There are no replicas: nobody can answer requests." : !this.shown.length ? "No replica matches the filter." : "";
    setText(this.none, empty);
    setShown(this.none, empty !== "");
    setShown(this.plot, !shared.table && this.shown.length > 0);
    setShown(this.readout, !shared.table && this.shown.length > 0);
    setShown(this.tableBox, shared.table && this.shown.length > 0);
    if (shared.table) this.fillTable();
    this.repaint();
  }

  repaint() {
    const { service, frame } = this;
    if (!service || !frame) return;
    const pointed = this.shown.findIndex((replica) => replica.index === shared.pointed);
    const replica = this.shown[pointed];
    const idle = `${plural(this.shown.length, "replica")} by ${shared.sort === "rif" ? "requests in flight" : shared.sort}. Point at one, or use the arrow keys; Enter opens it.`;
    setText(this.readout, replica ? replicaText(replica, service.limit) : idle);
    this.readout.classList.toggle("idle", !replica);
    setText(this.option, replica ? replicaText(replica, service.limit) : idle);
    attributes(this.option, { "aria-posinset": String(pointed + 1), "aria-setsize": String(this.shown.length), "aria-selected": String(pointed >= 0) });
    if (shared.table || !this.shown.length) return;
    const width = this.plot.clientWidth;
    const draw = begin(this.canvas, width, this.picture.layout(width, this.shown.length, this.tall).height);
    if (!draw) return;
    this.picture.paint(draw, width, {
      replicas: this.shown, limit: service.limit, frame, pointed: shared.pointed, fleet: service.replicas.length,
      chosen: shared.chosen?.replica ?? null, tall: this.tall,
    });
  }

  fillTable() {
    const { shown } = this;
    const make = () => {
      const name = button("", "link", () => this.open(Number(made.dataset.replica)));
      const head = element("th", "", name);
      head.scope = "row";
      const made = element("tr", "", head, ...Array.from({ length: 10 }, () => element("td")));
      return made;
    };
    fillList(this.rows, shown.slice(0, ROWS_MAX), make, (made, replica) => {
      made.dataset.replica = String(replica.index);
      setText(made.cells[0].firstElementChild, replica.name);
      const texts = [
        stateOf(replica.state).text, heatText(replica), count(replica.rif), count(replica.ours), span(replica.latency),
        span(replica.p99), percent(replica.share), rate(replica.rate), count(replica.failed), troubleText(replica.trouble),
      ];
      texts.forEach((text, i) => setText(made.cells[i + 1], text));
      made.classList.toggle("out", stateOf(replica.state).out);
    });
    setText(this.more, shown.length > ROWS_MAX ? `The first ${ROWS_MAX} of ${count(shown.length)}; a filter finds the others.` : "");
  }
}

/** @param {import("./model.js").Replica} replica */
export const heatText = (replica) => (replica.hot === null ? "–" : replica.hot ? "hot" : "cold");

/** @param {import("./model.js").Service} service */
function roomText(service) {
  const { limit } = service;
  if (limit === null) return "";
  const room = service.replicas.reduce((sum, replica) => sum + (stateOf(replica.state).out ? 0 : Math.max(0, limit - replica.rif)), 0);
  return `; room for ${plural(room, "request")} below the limit`;
}

/** @param {import("./model.js").Replica} replica @param {number | null} limit */
export function replicaText(replica, limit) {
  const parts = [replica.name];
  const { text, sign } = stateOf(replica.state);
  parts.push(sign ? `${sign} ${text}` : text);
  const trouble = troubleText(replica.trouble);
  if (trouble) parts.push(`▲ ${trouble}`);
  const heat = replica.hot === null ? "" : replica.hot ? `, hot (limit ${limit})` : limit === null ? ", cold" : `, cold (limit ${limit})`;
  parts.push(`${count(replica.rif)} in flight${replica.ours < replica.rif ? `, ${count(replica.ours)} ours` : ""}${heat}`);
  parts.push(`latency ${span(replica.latency)}`);
  parts.push(`${percent(replica.share)} of requests`);
  if (replica.failed) parts.push(`${count(replica.failed)} failed`);
  return parts.join(" · ");
}
