// The current problems: one list, made here, at the top of every page.

import { button, element, fillList, setShown, setText } from "./dom.js";
import { ago, count, moment, percent, plural, rate, stateOf } from "./words.js";

/** Rows that are shown at first; the rest is folded. */
const SHOWN = 5;
/** Fewest failed requests of the last seconds that are a problem; the next two: their least share, and the share that is severe. */
const FAILED_MIN = 3;
const FAILED_PART = 0.01;
const FAILED_MOST = 0.5;
/** A certificate that ends within this time must be renewed. */
const EXPIRY_MS = 14 * 86_400_000;
const SHED = ["shed_queue_full", "shed_wait_over", "shed_deadline", "shed_replicas_full"];

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
  const found = [...ofProcess(model, now), ...model.services.flatMap((service) => ofService(service, now))];
  return found.sort((a, b) => b.severity - a.severity);
}

/** @type {Record<string, [string, string]>} phases without requests: text and remedy */
const PHASES = {
  starting: ["The process does not listen yet.", "Wait for /readyz to answer 200."],
  withdrawn: ["The agent refuses requests: its server cannot be connected to.", "See whether the server runs and listens."],
  draining: ["The process finishes what it has and takes nothing new.", ""],
};

/** @param {import("./model.js").Model} model @param {number} now @returns {Problem[]} */
function ofProcess({ fleet, tick }, now) {
  /** @type {Problem[]} */
  const found = [];
  const phase = PHASES[tick.phase];
  if (phase) found.push({ severity: 1, text: phase[0], remedy: phase[1] });
  if (fleet.reloads?.failure) {
    found.push({ severity: 1, text: `The configuration read at ${moment(fleet.reloads.last_at_ms, now)} was refused: ${brief(fleet.reloads.failure)}`, remedy: "The one before stays in force. Correct the file and reload.", page: "configuration" });
  }
  for (const { names, purpose, file, expires_s: end } of fleet.certificates ?? []) {
    if (end === null || end * 1000 - now > EXPIRY_MS) continue;
    const left = end * 1000 - now;
    const which = `The certificate of ${names[0] ?? file} (${purpose})`;
    found.push({ severity: left < 0 ? 2 : 1, text: left < 0 ? `${which} expired ${ago(-left)} ago.` : `${which} expires in ${ago(left)}.`, remedy: `Renew ${file}; it is read again by itself.`, page: "configuration" });
  }
  return found;
}

/** The first mistake of a list, without its excerpt. @param {string} failure */
function brief(failure) {
  const lines = failure.split("\n").map((line) => line.trim()).filter((line) => line && !/^[0-9]* *\|/.test(line));
  const text = lines.slice(0, 2).join(" ");
  if (text.length > 220) return `${text.slice(0, 219)}…`;
  return /[.?!]$/.test(text) ? text : `${text}.`;
}

/** @param {import("./model.js").Service} service @param {number} now @returns {Problem[]} */
function ofService(service, now) {
  const { tick, replicas, name, index } = service;
  if (!tick) return [];
  /** @type {Problem[]} */
  const found = [];
  const add = (/** @type {Problem} */ problem) => found.push({ service: index, ...problem });
  const source = service.told.discovery;
  const fromList = !source || source.source === "list";
  if (!service.told.replicas.length) add({ severity: 2, text: `${name} has no replicas: every request fails.`, remedy: fromList ? "Add servers to its list of replicas, and reload." : source.failure ? `${source.source} could not be read: ${source.failure}.` : `See what ${source.source} answers.` });
  else if (source?.failure) add({ severity: 1, text: `${name}: the list of replicas could not be read from ${source.source}: ${source.failure}.`, remedy: "The last good list stays in use." });
  if (replicas.length && replicas.every((replica) => replica.out)) add({ severity: 2, text: `${name}: ${replicas.length === 1 ? "its only replica takes no requests" : `none of ${count(replicas.length)} replicas takes requests`}. Requests are tried all the same.`, remedy: "See why below." });
  for (const group of groupsOf(replicas)) add({ severity: 1, ...groupText(name, group, now) });
  if (!replicas.length) return found;
  const [ended, failed] = [service.ended.sent[0] ?? 0, service.ended.failed[0] ?? 0];
  if (failed >= FAILED_MIN && failed >= ended * FAILED_PART) {
    add({ severity: failed >= ended * FAILED_MOST ? 2 : 1, text: `${name}: ${percent(failed / ended)} of requests fail (${rate(Math.round(failed / service.ended.seconds))} a second).`, remedy: "See the decisions of failed requests: they have the replica and the cause." });
  }
  const shed = SHED.reduce((sum, kind) => sum + (tick.admission[kind] ?? 0), 0);
  if (shed) add({ severity: 1, text: `${name} refuses ${plural(shed, "request")} a second for want of room.`, remedy: "Add replicas, or raise queue.requests_max." });
  if (tick.no_replica) add({ severity: 2, text: `${name}: ${plural(tick.no_replica, "request")} found no replica.` });
  return found;
}

/** Groups replicas in an alarming state by state and cause. @param {import("./model.js").Replica[]} replicas */
function groupsOf(replicas) {
  /** @type {Map<string, import("./model.js").Replica[]>} */
  const groups = new Map();
  for (const replica of replicas) {
    if (!replica.alarming) continue;
    const key = `${replica.state} ${replica.why}`;
    const group = groups.get(key);
    if (group) group.push(replica);
    else groups.set(key, [replica]);
  }
  return groups.values();
}

/** @param {string} service @param {import("./model.js").Replica[]} group @param {number} now */
function groupText(service, group, now) {
  const [first] = group;
  const state = stateOf(first.state).text;
  const why = first.why ? `: ${first.why}` : "";
  const remedy = first.remedy && `${first.remedy[0].toUpperCase()}${first.remedy.slice(1)}.`;
  const known = group.map((replica) => replica.since).filter((since) => since !== null);
  const since = known.length ? ` since ${moment(Math.min(...known), now)} (${ago(now - Math.min(...known))})` : "";
  if (group.length > 1) return { text: `${service}: ${count(group.length)} replicas are ${state}${since}${why}. ${group.slice(0, 3).map((replica) => replica.name).join(", ")}${group.length > 3 ? ", …" : ""}`, remedy, replica: first.index };
  const checked = first.checked === null ? "" : ` Last check ${ago(now - first.checked)} ago.`;
  return { text: `${service}: ${first.name} is ${state}${since}${why}.${checked}`, remedy, replica: first.index };
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
