// Why the next request goes where it goes: the plane of load and latency, the rule in a sentence,
// and the reports in the rule's order.

import { attributes, button, element, fillList, headRow, rove, setShown, setText, widthOf } from "./dom.js";
import * as plane from "./plane.js";
import { equalsOf, isMeasuredHere, limitOf, nextPick, withoutReports } from "./rule.js";
import { share, shared } from "./shared.js";
import { troubleText } from "./model.js";
import { comparisonOf, count, figure, formulaText, isPooled, percent, plural, policyOf, span, stateOf } from "./words.js";

const HEIGHT = 250;
const ROWS_MAX = 16;
/** The most rows of replicas by requests in flight, for policies without a pool. */
const FULLEST_MAX = 8;

export class WhyView {
  /** @param {string} id @param {(replica: number) => void} open */
  constructor(id, open) {
    this.open = open;
    this.worker = 0;
    /** @type {plane.PlaneScene | null} */
    this.scene = null;
    this.title = element("h3", "", "Why that replica?");
    this.title.id = `${id}-why`;
    this.workers = element("select");
    this.workersBox = element("label", "", "worker ", this.workers);
    this.workers.addEventListener("change", () => {
      this.worker = Number(this.workers.value);
      this.repaintAll();
    });
    this.rule = element("p", "rule");
    this.canvas = element("canvas");
    attributes(this.canvas, { role: "img" });
    this.plot = element("div", "plot", this.canvas);
    this.rows = element("tbody");
    this.head = element("thead");
    this.heads = "";
    this.table = element("table", "pool", this.head, this.rows);
    this.caption = element("caption", "", "What the next pick compares, the best first");
    this.table.prepend(this.caption);
    this.fullRows = element("tbody");
    this.fullest = element("table", "pool fullest", headRow(["replica", "ours in flight", "≈ p99 here", "share of requests", "state"]), this.fullRows);
    this.fullest.prepend(element("caption", "", "The fullest now"));
    this.root = element("section", "card why", element("div", "card-head", this.title, this.workersBox), this.rule, this.plot, element("div", "pool-box", this.table, this.fullest));
    attributes(this.root, { "aria-labelledby": this.title.id });
    this.plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => share({ pointed: this.at(event) }));
    this.plot.addEventListener("pointerleave", () => share({ pointed: null }));
    this.plot.addEventListener("click", (/** @type {PointerEvent} */ event) => {
      const found = this.at(event);
      if (found !== null) this.open(found);
    });
    for (const rows of [this.rows, this.fullRows]) {
      rows.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => share({ pointed: rowOf(event) }));
      rows.addEventListener("pointerleave", () => share({ pointed: null }));
      rows.addEventListener("click", (/** @type {PointerEvent} */ event) => {
        const found = rowOf(event);
        if (found !== null) this.open(found);
      });
    }
    this.settleRows = rove(this.rows);
    this.settleFullRows = rove(this.fullRows);
  }

  /** @param {PointerEvent} event */
  at(event) {
    if (!this.scene) return null;
    const box = this.canvas.getBoundingClientRect();
    return plane.replicaAt(this.scene, box.width, HEIGHT, event.clientX - box.left, event.clientY - box.top);
  }

  /** @param {import("./model.js").Service} service @param {import("./frame.js").Frame} frame */
  show(service, frame) {
    this.service = service;
    this.frame = frame;
    this.repaintAll();
  }

  repaintAll() {
    const { service, frame } = this;
    if (!service || !frame || !service.tick) return;
    const workers = service.workers;
    if (workers.length && !workers.includes(this.worker)) this.worker = workers[0];
    setShown(this.workersBox, workers.length > 1);
    fillList(this.workers, workers, () => element("option"), (option, worker) => {
      setText(option, String(worker));
      option.value = String(worker);
    });
    this.workers.value = String(this.worker);
    /** @type {import("./rule.js").Report[]} */
    const pool = service.tick.pool.filter((/** @type {any} */ report) => report.worker === this.worker);
    const next = nextPick(pool);
    const limit = limitOf(pool, service.limit);
    this.scene = { service, frame, limit, pool, next, pointed: shared.pointed, chosen: shared.chosen?.replica ?? null };
    const name = (/** @type {number} */ index) => service.replicas[index]?.name ?? String(index);
    /** @type {{comparison: string, shared: Record<string, number>} | undefined} */
    const compared = (service.tick.compared ?? []).find((/** @type {any} */ one) => one.worker === this.worker);
    const comparison = comparisonOf(compared?.comparison);
    this.sayRule(service, pool, next, comparison, compared?.shared ?? {}, name);
    const pooled = pool.length > 0;
    setShown(this.table, pooled);
    const subject = isMeasuredHere(pool) ? "replica" : "report of";
    const columns = columnsOf(comparison, pool);
    this.setHeads(["", subject, ...columns.map(([head]) => head)]);
    setText(this.caption, comparison ? "What the next pick compares, the best first" : "What is known, the newest first");
    const held = this.rows.contains(document.activeElement);
    const cells = columns.map(([, of]) => of);
    const make = () => element("tr", "", element("td", "next"), named(), ...cells.map(() => element("td")));
    fillList(this.rows, pool.slice(0, ROWS_MAX), make, (made, report, place) => fillRow(made, report, place === 0 && next !== null, name, cells));
    this.settleRows(held && !this.rows.contains(document.activeElement));
    this.showFullest(service, pooled);
    this.repaint();
  }

  /** Shows requests in flight by replica, for policies without a pool. @param {import("./model.js").Service} service @param {boolean} pooled */
  showFullest(service, pooled) {
    const shown = !pooled && !isPooled(service.policy) && service.replicas.length > 1;
    setShown(this.fullest, shown);
    if (!shown) return;
    const sorted = service.replicas.slice().sort((a, b) => b.ours - a.ours || a.index - b.index).slice(0, FULLEST_MAX);
    const make = () => element("tr", "", named(), element("td", "", element("span", "number"), element("span", "meter", element("i"))), ...Array.from({ length: 3 }, () => element("td")));
    const most = Math.max(1, sorted[0]?.ours ?? 0);
    const held = this.fullRows.contains(document.activeElement);
    fillList(this.fullRows, sorted, make, (made, replica) => {
      made.dataset.replica = String(replica.index);
      const { cells } = made;
      setText(cells[0].firstElementChild, replica.name);
      setText(cells[1].firstElementChild, count(replica.ours));
      cells[1].lastElementChild.firstElementChild.style.width = `${Math.round((replica.ours / most) * 100)}%`;
      const trouble = troubleText(replica.trouble);
      [span(replica.p99), percent(replica.share), trouble ? `▲ ${trouble}` : stateOf(replica.state).text].forEach((text, i) => setText(cells[i + 2], text));
    });
    this.settleFullRows(held && !this.fullRows.contains(document.activeElement));
  }

  /** Sets the headers, and drops the rows if the columns change. @param {string[]} heads */
  setHeads(heads) {
    const key = heads.join("|");
    if (key === this.heads) return;
    this.heads = key;
    this.rows.replaceChildren();
    this.head.replaceChildren(...headRow(heads).childNodes);
  }

  /**
   * Shows the decisive rule and its formula.
   * @param {import("./model.js").Service} service
   * @param {import("./rule.js").Report[]} pool the best first
   * @param {import("./rule.js").Report | null} next
   * @param {import("./words.js").Comparison | null} comparison
   * @param {Record<string, number>} shared
   * @param {(index: number) => string} name
   */
  sayRule(service, pool, next, comparison, shared, name) {
    /** @type {(string | HTMLElement)[]} */
    const parts = [policyOf(service.policy).about, " "];
    if (comparison && next) parts.push("Next pick: ", element("b", "", name(next.replica)), ". ");
    else if (comparison && pool.length) parts.push(`${plural(equalsOf(pool).length, "replica")} are equal: chance decides. `);
    else if (isPooled(service.policy)) parts.push(withoutReports(service.policy, pool.length), " ");
    if (comparison) parts.push(element("span", "formula", formulaText(comparison, shared)), ".");
    this.say(parts);
  }

  /** @param {(string | HTMLElement)[]} parts */
  say(parts) {
    const text = parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
    // The text is written only if it changes, so that users can select it.
    if (this.rule.textContent !== text) this.rule.replaceChildren(...parts);
    attributes(this.canvas, { "aria-label": `Replicas by requests in flight and latency. ${text}` });
  }

  repaint() {
    if (!this.scene) return;
    this.scene.pointed = shared.pointed;
    this.scene.chosen = shared.chosen?.replica ?? null;
    for (const row of [...this.rows.children, ...this.fullRows.children]) row.classList.toggle("pointed", Number(row.dataset.replica) === shared.pointed);
    plane.paint(this.canvas, widthOf(this.plot), HEIGHT, this.scene);
  }
}

/** @param {Event} event */
function rowOf(event) {
  const row = /** @type {HTMLElement} */ (event.target).closest("tr");
  return row?.dataset.replica === undefined ? null : Number(row.dataset.replica);
}

/** A replica's name as a button that opens it. The table's body handles clicks anywhere in the row. */
function named() {
  const head = element("th", "", button("", "link", () => {}));
  head.scope = "row";
  return head;
}

/**
 * The columns, each with its header and its formatter: the factors of the comparison, and the age of the report.
 * @param {import("./words.js").Comparison | null} comparison
 * @param {import("./rule.js").Report[]} pool
 * @returns {[string, (report: import("./rule.js").Report) => string][]}
 */
function columnsOf(comparison, pool) {
  /** @type {[string, (report: import("./rule.js").Report) => string][]} */
  const columns = (comparison?.factors ?? []).map((factor) => [factor.name, (report) => figure(factor, report.factors?.[factor.key])]);
  if (!comparison) columns.push(["requests in flight", (report) => count(report.rif)], ["latency", (report) => span(report.latency_us)]);
  columns.push(["age", (report) => `${count(report.age_ms)} ms`]);
  if (pool.some((report) => report.uses_left !== null)) columns.push(["uses left", (report) => (report.uses_left === null ? "∞" : count(report.uses_left))]);
  return columns;
}

/**
 * @param {any} made
 * @param {import("./rule.js").Report} report
 * @param {boolean} next
 * @param {(index: number) => string} name
 * @param {((report: import("./rule.js").Report) => string)[]} cells
 */
function fillRow(made, report, next, name, cells) {
  made.dataset.replica = String(report.replica);
  made.classList.toggle("is-next", next);
  made.classList.toggle("is-hot", report.hot);
  setText(made.cells[0], next ? "next" : "");
  setText(made.cells[1].firstElementChild, name(report.replica));
  cells.forEach((of, place) => setText(made.cells[place + 2], of(report)));
}
