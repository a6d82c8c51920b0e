// A chart over time with its legend. The legend is a table of the current values, so nothing is in
// the picture alone. While the pointer is over the chart, it shows the values of that moment.

import { attributes, element, fillList, headRow, setText, widthOf } from "./dom.js";
import * as trend from "./trend.js";
import { clock } from "./words.js";

const HEIGHT = 150;

/**
 * @typedef {object} Entry a line of the legend
 * @property {string} name
 * @property {string} colour a name of the theme
 * @property {"line" | "thin" | "dash" | "area" | "pale" | "paler"} kind
 * @property {(string | null)[]} values the current value and the maximum
 * @property {(index: number) => string | null} [valueAt] the value at a sample of its series
 */

export class Chart {
  /** @param {string} title @param {string[]} heads of the legend's columns */
  constructor(title, heads, height = HEIGHT) {
    this.height = height;
    this.title = element("h3", "", title);
    this.canvas = element("canvas");
    attributes(this.canvas, { "aria-hidden": "true" });
    this.plot = element("div", "plot", this.canvas);
    this.body = element("tbody");
    this.heads = heads;
    this.head = headRow(["", ...heads]);
    this.legend = element("table", "legend", this.head, this.body);
    attributes(this.legend, { "aria-label": title });
    this.root = element("section", "card chart", this.title, this.plot, this.legend);
    /** @type {trend.Trend | null} */
    this.trend = null;
    /** @type {Entry[]} */
    this.entries = [];
    /** The pointer's position, in pixels. @type {number | null} */
    this.pointed = null;
    this.plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.point(event.clientX - this.plot.getBoundingClientRect().left));
    this.plot.addEventListener("pointerleave", () => this.point(null));
  }

  /** @param {number | null} x */
  point(x) {
    this.pointed = x;
    this.fillLegend();
    this.repaint();
  }

  /** @param {trend.Trend} drawn @param {Entry[]} entries */
  show(drawn, entries) {
    this.trend = drawn;
    this.entries = entries;
    this.fillLegend();
    this.repaint();
  }

  /** The moment under the pointer: its sample and its age. */
  get moment() {
    const { trend: drawn, pointed } = this;
    return drawn && pointed !== null ? trend.momentAt(drawn, widthOf(this.plot), pointed) : null;
  }

  fillLegend() {
    const { moment } = this;
    setText(this.head.rows[0].cells[1], moment ? `−${clock(moment.back)}` : this.heads[0]);
    const make = () => element("tr", "", element("th", "", element("i", "key"), element("span")), ...this.heads.map(() => element("td")));
    fillList(this.body, this.entries, make, (made, entry) => {
      made.cells[0].scope = "row";
      const [key, name] = made.cells[0].children;
      attributes(key, { "data-colour": entry.colour, "data-kind": entry.kind });
      setText(name, entry.name);
      entry.values.forEach((value, i) => setText(made.cells[i + 1], (i === 0 && moment && entry.valueAt ? entry.valueAt(moment.at) : value) ?? "–"));
    });
  }

  repaint() {
    if (this.trend) trend.paint(this.canvas, widthOf(this.plot), this.height, this.trend, this.moment?.at ?? null);
  }
}
