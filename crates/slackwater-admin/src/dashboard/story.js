// The details of a decision: the request, its attempts over time, and for each attempt the
// candidates and why one was chosen.

import { attributes, element, headRow, row, setText } from "./dom.js";
import { carries, comparisonOf, cost, figure, formulaText, percent, plural, reasonText, span } from "./words.js";

/** Purposes of attempts. */
const KINDS = {
  first: "first",
  retry: "retry",
  hedge: "second copy: it was late",
  tie: "tied copy",
  trial: "trial of an ejected replica",
};

const KEPT = { sampled: "drawn by chance", asked: "requested by a header", failed: "it failed", slow: "it was slow" };

/**
 * Renders the details of a decision as nodes.
 * @param {any} decision
 * @param {HTMLElement} close
 * @returns {Node[]}
 */
export function tell(decision, close) {
  const title = element("h2", "", `${decision.method} ${decision.path}`);
  title.id = "story-title";
  const answered = decision.status ? `answered with ${decision.status}` : "not answered";
  const kept = [decision.kept ?? []].flat().map((why) => KEPT[/** @type {keyof typeof KEPT} */ (why)] ?? why).join(", ");
  const lead = element("p", decision.failed ? "problem" : "", `${answered} after ${span(decision.total_us)}${decision.error ? `: ${decision.error}` : ""}`);
  const facts = [["id", decision.id], ["trace", decision.trace_id], ["when", decision.time], ["service", decision.service ? `${decision.service}, by ${decision.policy}` : "none"], ["client", decision.client], ["host", decision.host], ["kept because", kept]];
  const rows = facts.filter(([, value]) => value).map(([name, value]) => row(name, [String(value)]));
  const attempts = decision.attempts ?? [];
  return [
    element("div", "card-head", title, close), lead, element("table", "facts", element("tbody", "", ...rows)),
    ...(attempts.length ? [element("h3", "", "Attempts"), waterfall(decision, attempts)] : [element("p", "summary", "It went to no replica.")]),
    ...attempts.flatMap((/** @type {any} */ one, /** @type {number} */ place) => why(one, place, attempts, decision.policy)),
  ];
}

/** @param {any} decision @param {any[]} attempts */
function waterfall(decision, attempts) {
  const ends = attempts.map((one) => one.end_us ?? one.head_us ?? one.sent_us);
  const whole = Math.max(decision.total_us ?? 0, ...ends, 1);
  const made = attempts.map((one, place) => {
    const bar = element("span", "bar");
    const [from, to] = [one.sent_us ?? 0, one.end_us ?? whole];
    bar.style.left = `${(from / whole) * 100}%`;
    bar.style.width = `${Math.max(0.6, ((to - from) / whole) * 100)}%`;
    const track = element("span", "track", bar);
    if (one.head_us !== undefined) {
      const head = element("span", "head");
      head.style.left = `${(one.head_us / whole) * 100}%`;
      track.append(head);
    }
    const line = row(`${place + 1}. ${KINDS[/** @type {keyof typeof KINDS} */ (one.kind)] ?? one.kind}`, [
      one.replica, span(one.sent_us), one.head_us === undefined ? "–" : span(one.head_us), one.end_us === undefined ? "–" : span(one.end_us), outcomeText(one),
    ]);
    line.cells[1].after(element("td", "chart-cell", track));
    line.classList.toggle("answered", Boolean(one.answered));
    return line;
  });
  const head = headRow(["try", "replica", `0 to ${span(whole)}`, "sent", "answer", "over", "came to"]);
  return element("div", "table-box", element("table", "waterfall", head, element("tbody", "", ...made)));
}

/** @param {any} attempt */
function outcomeText(attempt) {
  const outcome = String(attempt.outcome ?? "–").replaceAll("_", " ");
  const said = attempt.status ? `${attempt.status}, ${outcome}` : outcome;
  return `${said}${attempt.answered ? ": the client's answer" : ""}${attempt.cause ? ` (${attempt.cause})` : ""}`;
}

/** Explains why an attempt went to its replica. @param {any} attempt @param {number} place @param {any[]} attempts @param {string | undefined} policy @returns {Node[]} */
function why(attempt, place, attempts, policy) {
  const which = attempts.length > 1 ? `Try ${place + 1}: why ` : "Why ";
  const parts = [
    element("h3", "", `${which}${attempt.replica}?`),
    element("p", "rule", element("b", "", sentence(reasonText(attempt.reason, policy))), ruleText(attempt, policy)),
  ];
  const known = attempt.chosen ? [{ replica: attempt.replica, ...attempt.chosen, chosen: true }, attempt.runner_up].filter(Boolean) : [];
  const candidates = attempt.candidates?.length ? attempt.candidates : known;
  if (candidates.length) parts.push(candidateTable(attempt, candidates));
  const outs = attempt.outs ?? [];
  if (outs.length) {
    const rows = outs.map((/** @type {any} */ one) => row(one.replica, [one.why, percent(one.share)]));
    parts.push(element("p", "summary", `Not available or limited: ${plural(attempt.out ?? outs.length, "replica")}`));
    parts.push(element("div", "table-box", element("table", "candidates", headRow(["replica", "why", "share"]), element("tbody", "", ...rows))));
  }
  return parts;
}

/** @param {string} text */
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

/** @param {any} attempt @param {string | undefined} policy */
function ruleText(attempt, policy) {
  /** @type {string[]} */
  const texts = [];
  const comparison = comparisonOf(attempt.comparison);
  if (attempt.rule) texts.push(`of those, ${reasonText(attempt.rule, policy)}`);
  if (attempt.reports !== undefined) texts.push(`${plural(attempt.reports, "report")} to choose from`);
  if (attempt.rif_limit !== undefined) texts.push(`hot with ${attempt.rif_limit} in flight or more`);
  // If nothing was recorded about the choice, such as for a trial, the value is 0 and has no
  // meaning.
  if (attempt.available) texts.push(`${plural(attempt.available, "replica")} could be chosen`);
  if (attempt.connect_us !== undefined) texts.push(`connecting took ${span(attempt.connect_us)}`);
  if (attempt.probing_us) texts.push(`asking took ${span(attempt.probing_us)}`);
  if (attempt.due_after_us !== undefined) texts.push(`due after ${span(attempt.due_after_us)}`);
  const said = texts.length ? ` ${sentence(texts.join("; "))}` : "";
  return comparison ? `${said} ${sentence(formulaText(comparison, attempt.shared))}` : said;
}

/** Columns of candidates: field, header, formatter. @type {[string, string, (value: any) => string][]} */
const COLUMNS = [
  ["rif", "in flight, as reported", String], ["in_flight", "ours in flight", String], ["capacity_millirif", "can carry", carries], ["in_use", "in use", percent],
  ["latency_us", "latency", span], ["cost_us", "cost of one", cost],
  ["age_us", "age", span], ["uses_left", "uses left", String], ["hot", "hot or cold", (hot) => (hot ? "hot" : "cold")],
  ["avoided", "avoided", (avoided) => (avoided ? "yes" : "no")], ["local", "own count", (local) => (local ? "yes" : "no")],
];

/** @param {any} attempt @param {any[]} candidates */
function candidateTable(attempt, candidates) {
  // The compared factors, followed by other values.
  const factors = comparisonOf(attempt.comparison)?.factors ?? [];
  const columns = COLUMNS.filter(([field]) => candidates.some((one) => one[field] !== undefined && one[field] !== false) && !factors.some((factor) => factor.key === field));
  const rows = candidates.map((/** @type {any} */ one) => {
    // A replica with a weight consists of several parts, each compared separately.
    const isSecond = one.replica === attempt.runner_up?.replica && one.part === attempt.runner_up?.part;
    const chosen = Boolean(one.chosen);
    const compared = factors.map((factor) => figure(factor, one.factors?.[factor.key]));
    const known = columns.map(([field, , write]) => (one[field] === undefined || one[field] === null ? "–" : write(one[field])));
    const line = row(one.parts ? `${one.replica}, part ${one.part} of ${one.parts}` : one.replica, [...compared, ...known]);
    const mark = chosen ? "chosen" : isSecond ? "runner-up" : "";
    line.prepend(element("td", "next", mark));
    line.classList.toggle("is-next", chosen);
    line.classList.toggle("is-hot", Boolean(one.hot));
    return line;
  });
  const table = element("table", "candidates pool", headRow(["", "replica", ...factors.map((factor) => factor.name), ...columns.map(([, head]) => head)]), element("tbody", "", ...rows));
  const caption = element("caption");
  const more = (attempt.considered ?? 0) > candidates.length ? ` of ${attempt.considered}` : "";
  setText(caption, `Compared: ${candidates.length}${more}, the best first`);
  table.prepend(caption);
  const box = element("div", "table-box", table);
  return attributes(box, { tabindex: "0", role: "region", "aria-label": "Candidates" });
}
