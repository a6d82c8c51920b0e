// What is wrong now, at the top of every page: the server's own list, as `slackwater admin status`
// and `/readyz` have it. Each problem gets a link to where more is shown of it.

import { button, element, fillList, setShown, setText } from "./dom.js";
import { ago, moment, plural } from "./words.js";

/** Rows that are shown at first; the rest is folded. */
const SHOWN = 5;
/** @type {Record<string, string>} the page that shows more of a kind of problem */
const PAGES = { certificate: "configuration", reload: "configuration" };

/**
 * @typedef {object} Problem
 * @property {2 | 1} severity 2: requests fail; 1: worth a look
 * @property {string} text what is wrong
 * @property {string} [remedy] what to do
 * @property {number} [service] its place
 * @property {number} [replica] its place in the service
 * @property {string} [page] the page with details
 */

/**
 * Returns all problems, the worst first.
 * @param {import("./model.js").Model} model
 * @param {number} now ms since 1970, by the process's clock
 * @returns {Problem[]}
 */
export function problemsOf(model, now) {
  // In the demo, troubles are made on purpose and are listed elsewhere.
  if (!model.tick || model.isDemo) return [];
  return (model.tick.problems ?? []).map((/** @type {any} */ told) => {
    const service = model.services.find((service) => service.name === told.service);
    const replica = service?.told.replicas.findIndex((/** @type {any} */ replica) => replica.name === told.replica) ?? -1;
    const since = told.since_ms ? `, since ${moment(told.since_ms, now)} (${ago(now - told.since_ms)})` : "";
    return {
      severity: told.severe ? 2 : 1, text: `${told.service ? `${told.service}: ` : ""}${told.what}${since}.`, remedy: told.remedy && `${told.remedy[0].toUpperCase()}${told.remedy.slice(1)}.`,
      service: service?.index, replica: replica < 0 ? undefined : replica, page: PAGES[told.kind],
    };
  });
}

export class ProblemsView {
  /** @param {(problem: Problem) => void} open */
  constructor(open) {
    this.open = open;
    this.isWhole = false;
    this.title = element("h2", "", "Problems");
    this.title.id = "problems-title";
    this.list = element("ul", "");
    this.more = button("", "link", () => {
      this.isWhole = !this.isWhole;
      this.fill();
    });
    this.root = element("section", "problems", this.title, this.list, this.more);
    this.root.setAttribute("aria-labelledby", "problems-title");
    this.root.hidden = true;
    /** @type {Problem[]} */
    this.found = [];
  }

  /** @param {Problem[]} found */
  show(found) {
    this.found = found;
    this.fill();
  }

  fill() {
    const { found } = this;
    setShown(this.root, found.length > 0);
    setText(this.title, found.length ? plural(found.length, "problem") : "No problems");
    const make = () => {
      const show = button("Show", "link", () => {
        const problem = this.found[Number(made.dataset.place)];
        if (problem) this.open(problem);
      });
      const made = element("li", "", element("span", "sign"), element("p", "", element("b"), element("span", "remedy")), show);
      made.firstElementChild.setAttribute("aria-hidden", "true");
      return made;
    };
    fillList(this.list, this.isWhole ? found : found.slice(0, SHOWN), make, (made, problem, place) => {
      made.dataset.place = String(place);
      made.dataset.severity = String(problem.severity);
      setText(made.children[0], problem.severity > 1 ? "✕" : "▲");
      setText(made.children[1].children[0], problem.text);
      setText(made.children[1].children[1], problem.remedy ? ` ${problem.remedy}` : "");
      setShown(made.children[2], problem.service !== undefined || problem.page !== undefined);
      made.children[2].setAttribute("aria-label", `Show: ${problem.text}`);
    });
    setShown(this.more, found.length > SHOWN);
    setText(this.more, this.isWhole ? "Show fewer" : `Show ${found.length - SHOWN} more`);
  }
}
