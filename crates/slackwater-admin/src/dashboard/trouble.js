// The controls for one replica in the demo: a neighbour, a fault. The same replica of both sides
// gets the same.

import { attributes, button, element, setText } from "./dom.js";

/** @typedef {(path: string, body: object) => Promise<string | null>} Post what was wrong, or nothing */

/** The faults: name, button, effect. */
const FAULTS = [
  ["killed", "Kill", "Connections are cut and refused, probes are not answered"],
  ["stalled", "Stall", "It takes requests and answers nothing, no probes either"],
  ["failing", "Fail fast", "It answers 503 at once, and probes as ever"],
];
const FAILING_PERCENT = 80;

export class TroubleKnobs {
  /** @param {Post} post @param {string} id */
  constructor(post, id) {
    this.post = post;
    this.replica = 0;
    this.fault = "none";
    this.faults = FAULTS.map(([fault, text, hint]) => {
      const made = button(text, "knob", () => this.setFault(this.fault === fault ? "none" : fault));
      attributes(made, { title: hint, "data-fault": fault });
      return made;
    });
    this.taken = element("input");
    attributes(this.taken, { type: "range", min: "0", max: "95", step: "5", id: `${id}-taken` });
    this.takenText = element("output");
    attributes(this.takenText, { for: `${id}-taken` });
    const label = element("label", "", "Noisy neighbour takes ");
    attributes(label, { for: `${id}-taken` });
    this.taken.addEventListener("input", () => setText(this.takenText, `${this.taken.value} %`));
    this.taken.addEventListener("change", () => this.post("/demo/replica", { replica: this.replica, taken_percent: Number(this.taken.value) }));
    this.root = element("div", "trouble", element("span", "range", label, this.taken, this.takenText), ...this.faults);
    attributes(this.root, { role: "group" });
  }

  /** @param {string} fault */
  setFault(fault) {
    const failing = fault === "failing" ? { failing_percent: FAILING_PERCENT } : {};
    return this.post("/demo/replica", { replica: this.replica, fault, ...failing });
  }

  /** @param {number} replica @param {string} name @param {any} fleet @param {import("./model.js").Trouble} trouble */
  show(replica, name, fleet, trouble) {
    const another = replica !== this.replica;
    this.replica = replica;
    this.fault = trouble.fault;
    attributes(this.root, { "aria-label": `Trouble for ${name}` });
    attributes(this.taken, { max: String(fleet.demo.taken_percent_max) });
    // Not while the user moves it.
    if (another || document.activeElement !== this.taken) {
      this.taken.value = String(trouble.taken);
      setText(this.takenText, `${trouble.taken} %`);
    }
    for (const made of this.faults) attributes(made, { "aria-pressed": String(made.dataset.fault === trouble.fault) });
  }
}
