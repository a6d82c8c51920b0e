// Why the next request goes where it goes: the plane of load and latency, the rule in a sentence,
// and the reports in its order.

import { attributes, button, element, fillList, headRow, rove, setShown, setText, widthOf } from "./dom.js";
import * as plane from "./plane.js";
import { limitOf, lowestOf, nextPick, withoutReports } from "./rule.js";
import { share, shared } from "./shared.js";
import { troubleText } from "./model.js";
import { count, isPooled, percent, plural, policyOf, span, stateOf } from "./words.js";

const HEIGHT = 250;
const ROWS_MAX = 16;
/** Of those with the most in flight, where a policy keeps no pool. */
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
    this.head = headRow(["", "report of", "in flight", "latency", "age", "uses left", "hot or cold"]);
    this.table = element("table", "pool", this.head, this.rows);
    this.caption = element("caption", "", "The pool: reports to choose from, in the order of the rule");
    this.table.prepend(this.caption);
    this.fullRows = element("tbody");
    this.fullest = element("table", "pool fullest", headRow(["replica", "ours in flight", "p99 here", "share of requests", "state"]), this.fullRows);
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
    const { next, cold, scored } = nextPick(pool);
    const limit = limitOf(pool, service.limit);
    this.scene = { service, frame, limit, pool, next, pointed: shared.pointed, chosen: shared.chosen?.replica ?? null };
    const name = (/** @type {number} */ index) => service.replicas[index]?.name ?? String(index);
    if (scored) this.sayScores(service, pool, name);
    else this.sayRule(service, limit, pool, next, cold, name);
    const pooled = pool.length > 0;
    setShown(this.table, pooled);
    // Where uses are not limited, there is nothing to say of them.
    this.table.classList.toggle("scored", scored);
    this.table.classList.toggle("endless", pool.every((report) => report.uses_left === null));
    setText(this.head.querySelector("th:last-child"), scored ? policyOf(service.policy).score : "hot or cold");
    setText(this.caption, scored ? `Reports that are compared, the lowest ${policyOf(service.policy).score} first` : next ? "The pool: reports to choose from, in the order of the rule" : "Reports to choose from, the newest first");
    const held = this.rows.contains(document.activeElement);
    // Beside the limit, or beside the most where there is none.
    const full = limit ?? Math.max(1, ...pool.map((report) => report.rif));
    fillList(this.rows, pool.slice(0, ROWS_MAX), makeRow, (made, report, place) => fillRow(made, report, place === 0 && next !== null, name, full));
    this.settleRows(held && !this.rows.contains(document.activeElement));
    this.showFullest(service, pooled);
    this.repaint();
  }

  /** In the pool's place, for policies that keep none: where requests are. @param {import("./model.js").Service} service @param {boolean} pooled */
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

  /**
   * @param {import("./model.js").Service} service
   * @param {number | null} limit of this worker
   * @param {import("./rule.js").Report[]} pool
   * @param {import("./rule.js").Report | null} next
   * @param {number} cold
   * @param {(index: number) => string} name
   */
  sayRule(service, limit, pool, next, cold, name) {
    let parts = [policyOf(service.policy).about];
    if (next && !next.hot) {
      const of = limit === null ? "" : ` (fewer than ${limit} in flight)`;
      parts = [
        cold === pool.length ? `All ${plural(cold, "report")} are ` : `${cold} of ${plural(pool.length, "report")} ${cold === 1 ? "is" : "are"} `, element("b", "cold", "cold"), `${of}. Of these, `,
        element("b", "", name(next.replica)), next.latency_us === null ? " is the next pick." : ` has the lowest latency, ${span(next.latency_us)}: the next pick.`,
      ];
    } else if (next && limit === 0) {
      parts = [
        "The limit is 0, since next to nothing is in flight: all count as ", element("b", "hot", "hot"), `. Of the reports with the fewest, ${next.rif}, `,
        element("b", "", name(next.replica)), next.latency_us === null ? " is the next pick." : `'s has the lowest latency, ${span(next.latency_us)}: the next pick.`,
      ];
    } else if (next) {
      parts = [
        `All ${plural(pool.length, "report")} are `, element("b", "hot", "hot"), `: ${limit} or more in flight. The fewest, ${next.rif}, are at `,
        element("b", "", name(next.replica)), ": the next pick.",
      ];
    } else if (isPooled(service.policy)) parts.push(` ${withoutReports(service.policy, pool.length)}`.trimEnd());
    this.say(parts);
  }

  /** @param {(string | HTMLElement)[]} parts */
  say(parts) {
    const text = parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("");
    // What stands there already stays, so that it can be marked.
    if (this.rule.textContent !== text) this.rule.replaceChildren(...parts);
    attributes(this.canvas, { "aria-label": `Replicas by requests in flight and latency. ${text}` });
  }

  /**
   * By what policies choose that compare something of their own: the lowest wins.
   * @param {import("./model.js").Service} service
   * @param {import("./rule.js").Report[]} order the best first
   * @param {(index: number) => string} name
   */
  sayScores(service, order, name) {
    const { score, formula, tie } = policyOf(service.policy);
    const [next, second] = order;
    const equals = lowestOf(order);
    const all = order.length < service.replicas.length ? `Of ${plural(order.length, "report")} that ${order.length === 1 ? "is" : "are"} compared, ` : `Of all ${plural(order.length, "report")}, `;
    if (equals.length > 1 && !next.next) {
      const others = equals.length > 2 ? `, ${name(second.replica)}${equals.length > 3 ? ` and ${plural(equals.length - 2, "other")}` : ` and ${name(equals[2].replica)}`}` : ` and ${name(second.replica)}`;
      this.say([all, element("b", "", name(next.replica)), `${others} have the lowest ${score}, ${span(next.score_us)}: chance decides. ${formula}`.trimEnd()]);
      return;
    }
    const follows = !second ? "" : equals.length === 1 ? `; ${name(second.replica)} follows with ${span(second.score_us)}` : `; ${name(second.replica)} has the same${tie ? `, and ${tie}` : ""}`;
    this.say([all, element("b", "", name(next.replica)), `'s has the lowest ${score}, ${span(next.score_us)}: the next pick${follows}. ${formula}`.trimEnd()]);
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

/** A replica's name, which opens it: the click is heard by the table's body, wherever in the row it is. */
function named() {
  const head = element("th", "", button("", "link", () => {}));
  head.scope = "row";
  return head;
}

function makeRow() {
  const meter = element("span", "meter", element("i"));
  const age = element("span", "meter age", element("i"));
  return element(
    "tr", "", element("td", "next"), named(), element("td", "", element("span", "number"), meter), element("td"),
    element("td", "", element("span", "number"), age), element("td"), element("td"),
  );
}

/**
 * @param {any} made
 * @param {import("./rule.js").Report} report
 * @param {boolean} next
 * @param {(index: number) => string} name
 * @param {number} full so many in flight are a full bar
 */
function fillRow(made, report, next, name, full) {
  made.dataset.replica = String(report.replica);
  const cells = made.cells;
  made.classList.toggle("is-next", next);
  made.classList.toggle("is-hot", report.hot);
  setText(cells[0], next ? "next" : "");
  setText(cells[1].firstElementChild, name(report.replica));
  setText(cells[2].firstElementChild, String(report.rif));
  const part = full ? Math.min(1, report.rif / full) : 0;
  cells[2].lastElementChild.firstElementChild.style.width = `${Math.round(part * 100)}%`;
  setText(cells[3], report.latency_us === null ? "not known" : span(report.latency_us));
  setText(cells[4].firstElementChild, `${report.age_ms} ms`);
  cells[4].lastElementChild.firstElementChild.style.width = `${Math.max(0, 100 - report.age_ms / 10)}%`;
  setText(cells[5], report.uses_left === null ? "∞" : String(report.uses_left));
  const scored = (report.score_us ?? null) !== null;
  setText(cells[6], `${scored ? span(report.score_us) : report.hot ? "hot" : "cold"}${report.local ? ", ours" : ""}`);
}
