// A chart over time with its legend, which is a table of what the lines are at: so nothing is in
// the picture alone.

import { attributes, element, fillList, headRow, setText, widthOf } from "./dom.js";
import * as trend from "./trend.js";

const HEIGHT = 150;

/**
 * @typedef {object} Entry a line of the legend
 * @property {string} name
 * @property {string} colour a name of the theme
 * @property {"line" | "thin" | "dash" | "area" | "pale" | "paler"} kind
 * @property {(string | null)[]} values what it is at, and the most
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
    this.legend = element("table", "legend", headRow(["", ...heads]), this.body);
    attributes(this.legend, { "aria-label": title });
    this.root = element("section", "card chart", this.title, this.plot, this.legend);
    /** @type {trend.Trend | null} */
    this.trend = null;
  }

  /** @param {trend.Trend} drawn @param {Entry[]} entries */
  show(drawn, entries) {
    this.trend = drawn;
    const make = () => element("tr", "", element("th", "", element("i", "key"), element("span")), ...this.heads.map(() => element("td")));
    fillList(this.body, entries, make, (made, entry) => {
      made.cells[0].scope = "row";
      const [key, name] = made.cells[0].children;
      attributes(key, { "data-colour": entry.colour, "data-kind": entry.kind });
      setText(name, entry.name);
      entry.values.forEach((value, i) => setText(made.cells[i + 1], value ?? "–"));
    });
    this.repaint();
  }

  repaint() {
    if (this.trend) trend.paint(this.canvas, widthOf(this.plot), this.height, this.trend);
  }
}
