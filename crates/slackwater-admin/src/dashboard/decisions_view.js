// Recorded decisions: a list of requests, and a detailed view of each. Hidden if none are recorded.

import { attributes, button, element, fillList, headRow, setShown, setText } from "./dom.js";
import { tell } from "./story.js";
import { count, learnComparisons, plural, reasonName, span } from "./words.js";

const EVERY_MS = 5_000;
const LIMIT = 25;

/** The filters: key, label, and query parameters. @type {[string, string, Record<string, string>][]} */
const KINDS = [
  ["all", "all that were kept", {}],
  ["failed", "failed", { failed: "true" }],
  ["quick", "slower than 10 ms", { slower_than: "10ms" }],
  ["slow", "slower than 100 ms", { slower_than: "100ms" }],
  ["slower", "slower than 1 s", { slower_than: "1s" }],
];

/**
 * @typedef {object} Found
 * @property {number} kept
 * @property {number} matching
 * @property {any[]} decisions
 * @property {Record<string, import("./words.js").Comparison>} [comparisons]
 */

/** Whether the process has decisions. An agent has none, because it does not choose replicas. */
let areThere = true;

/** @param {boolean} there whether the process has decisions */
export function setDecisions(there) {
  areThere = there;
}

export class DecisionsView {
  /**
   * @param {string} id
   * @param {string} title
   * @param {HTMLDialogElement} dialog for the details of a decision
   */
  constructor(id, title, dialog) {
    this.dialog = dialog;
    this.title = element("h3", "", title);
    this.title.id = id;
    this.kind = element("select");
    for (const [key, text] of KINDS) {
      const option = element("option", "", text);
      option.value = key;
      this.kind.append(option);
    }
    this.kind.addEventListener("change", () => void this.ask());
    this.id = element("input", "id");
    attributes(this.id, { type: "search", placeholder: "as the access log has it", autocomplete: "off", spellcheck: "false" });
    this.id.addEventListener("change", () => void this.ask());
    this.summary = element("p", "summary");
    this.rows = element("tbody");
    this.table = element("table", "decisions", headRow(["request", "service", "when", "answered", "waited", "replica", "why there", "tries"]), this.rows);
    attributes(this.table, { "aria-labelledby": id });
    this.box = element("div", "table-box", this.table);
    attributes(this.box, { tabindex: "0", role: "region", "aria-labelledby": id });
    this.root = element("section", "card", element("div", "card-head", this.title, element("div", "tools", element("label", "", "id ", this.id), element("label", "", "show ", this.kind))), this.box, this.summary);
    this.root.hidden = true;
    /** @type {Record<string, string>} */
    this.about = {};
    this.key = "";
    /** @type {any[]} */
    this.shown = [];
    /** Number of requests sent to the server so far. */
    this.asked = 0;
    this.timer = 0;
  }

  /** Starts polling the decisions of a service or a replica. @param {Record<string, string>} about */
  follow(about) {
    const key = JSON.stringify(about);
    if (!areThere || key === this.key) return;
    this.about = about;
    this.key = key;
    setShown(this.root, false);
    void this.ask();
  }

  /** Stops polling. */
  stop() {
    this.key = "";
    window.clearTimeout(this.timer);
  }

  async ask() {
    window.clearTimeout(this.timer);
    const { key } = this;
    if (!key) return;
    const asked = ++this.asked;
    try {
      if (!document.hidden) await this.askOnce(asked);
    } catch {
      if (asked === this.asked) setText(this.summary, "No answer; trying again. What is listed is what was known.");
    }
    if (asked === this.asked && this.key === key) this.timer = window.setTimeout(() => void this.ask(), EVERY_MS);
  }

  /** @param {number} asked number of this request; the answer to an older one is ignored */
  async askOnce(asked) {
    const id = this.id.value.trim();
    const parameters = id ? { id } : (KINDS.find(([kind]) => kind === this.kind.value)?.[2] ?? {});
    const answer = await fetch(`/decisions?${new URLSearchParams({ ...this.about, ...parameters, limit: String(LIMIT) })}`);
    const told = answer.ok ? await answer.json() : (await answer.text()).trim();
    if (asked !== this.asked) return;
    if (answer.ok) this.show(told);
    // A process without decisions is not polled again until another process replaces it.
    else if (answer.status === 404) {
      setShown(this.root, false);
      this.stop();
    } else setText(this.summary, `Answered with ${answer.status}: ${told}`);
  }

  /** @param {Found} found */
  show(found) {
    setShown(this.root, true);
    learnComparisons(Object.values(found.comparisons ?? {}));
    this.shown = found.decisions;
    const none = found.kept ? `No recorded decision matches: ${plural(found.kept, "decision is kept", "decisions are kept")}. Use fewer filters.` : "No decision is recorded yet. [decisions] in the configuration selects the requests.";
    const text = found.decisions.length ? `The newest ${count(found.decisions.length)} of ${count(found.matching)}; ${plural(found.kept, "decision")} in memory.` : none;
    setText(this.summary, text);
    // If all decisions are of one service, its column is hidden.
    this.table.classList.toggle("of-one", "service" in this.about);
    // An empty box would still be a tab stop.
    setShown(this.box, found.decisions.length > 0);
    const make = () => {
      const open = button("", "link", () => this.open(Array.prototype.indexOf.call(this.rows.children, made)));
      const head = element("th", "", open);
      head.scope = "row";
      const made = element("tr", "", head, ...Array.from({ length: 7 }, () => element("td")));
      return made;
    };
    fillList(this.rows, found.decisions, make, (made, decision) => {
      const tries = decision.attempts ?? [];
      const told = tries.find((/** @type {any} */ one) => one.answered) ?? tries.at(-1);
      setText(made.cells[0].firstElementChild, `${decision.method} ${decision.path}`);
      const texts = [
        decision.service ?? "–", timeOf(decision.time), decision.status ? String(decision.status) : "nothing", span(waited(decision)), told?.replica ?? "–",
        told ? reasonName(told.reason, decision.policy) : (decision.error ?? "–"), triesText(tries),
      ];
      texts.forEach((text, i) => setText(made.cells[i + 1], text));
      made.classList.toggle("bad", Boolean(decision.failed));
    });
  }

  /** @param {number} place */
  open(place) {
    const decision = this.shown[place];
    if (!decision) return;
    const close = button("Close", "knob", () => this.dialog.close());
    this.dialog.replaceChildren(...tell(decision, close));
    this.dialog.showModal();
    this.dialog.scrollTop = 0;
  }
}

/** Time to the head of the response, which decides whether a request is slow; without a head, time to its end. @param {any} decision */
const waited = (decision) => decision.first_byte_us ?? decision.total_us;

/** Converts a moment in UTC to the local time of day. @param {string} time */
function timeOf(time) {
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? time : at.toLocaleTimeString("en-GB");
}

/** @param {any[]} tries */
function triesText(tries) {
  if (tries.length < 2) return String(tries.length);
  const kinds = new Set(tries.slice(1).map((one) => one.kind));
  return `${tries.length}: ${[...kinds].join(", ")}`;
}
