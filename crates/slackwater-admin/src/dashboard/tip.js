// A tooltip with the values under the pointer. The same values are elsewhere as text, for users
// without a pointer.

import { attributes, element, fillList, setShown, setText } from "./dom.js";

/** Distance between the pointer and the box. */
const GAP = 12;

export class Tip {
  /** @param {HTMLElement} plot its container */
  constructor(plot) {
    this.plot = plot;
    this.title = element("b");
    this.rows = element("dl");
    this.root = element("div", "tip", this.title, this.rows);
    attributes(this.root, { "aria-hidden": "true" });
    this.root.hidden = true;
    plot.append(this.root);
  }

  /** @param {string} title @param {[string, string][]} rows @param {number} x @param {number} y in the plot */
  show(title, rows, x, y) {
    setShown(this.root, true);
    setText(this.title, title);
    fillList(this.rows, rows, () => element("div", "", element("dt"), element("dd")), (made, [name, value]) => {
      setText(made.children[0], name);
      setText(made.children[1], value);
    });
    // On the side with more room, and always within the plot.
    const [wide, room] = [this.root.offsetWidth, this.plot.clientWidth];
    const left = x + GAP + wide <= room ? x + GAP : x - GAP - wide;
    this.root.style.left = `${Math.max(0, Math.min(left, room - wide))}px`;
    this.root.style.top = `${Math.max(0, y)}px`;
  }

  hide() {
    setShown(this.root, false);
  }
}
