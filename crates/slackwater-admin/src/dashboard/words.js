// Formats numbers and states as text, for the whole page.

/** @param {number} value */
export const count = (value) => Math.round(value).toLocaleString("en-US");

const NONE = "–";

/** Microseconds as people write them: `0.4 ms`, `9.4 ms`, `142 ms`, `1.31 s`. @param {number | null | undefined} us */
export function span(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return NONE;
  const ms = us / 1000;
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 9_999.5) return `${count(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 99_950 ? 1 : 0)} s`;
}

/** A duration for an axis: `1 ms`, `10 ms`, `1 s`. @param {number} us */
export const spanMark = (us) => (us < 1000 ? `${us} µs` : us < 1_000_000 ? `${us / 1000} ms` : `${us / 1_000_000} s`);

/** A share: `0 %`, `0.4 %`, `12 %`. @param {number | null | undefined} part */
export function percent(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return NONE;
  const value = part * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "< 0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`;
}

/** A capacity, from thousandths of a request in flight: `4.5`, `120`. @param {number | null | undefined} millirif */
export function carries(millirif) {
  if (millirif === null || millirif === undefined || Number.isNaN(millirif)) return NONE;
  return millirif < 99_950 ? (millirif / 1000).toFixed(1) : count(millirif / 1000);
}

/** The cost of a request, which may be very small: `85 µs`, `2.1 ms`. @param {number | null | undefined} us */
export function cost(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return NONE;
  return us < 1000 ? `${Math.round(us)} µs` : span(us);
}

/** A rate per second: `12.5`, `400`, `2,000`. @param {number | null | undefined} value */
export function rate(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  return value < 99.95 && value % 1 !== 0 ? value.toFixed(1) : count(value);
}

/** A number for an axis: `0`, `0.5`, `200`, `2k`, `1.5M`. @param {number} value */
export function shortCount(value) {
  if (value >= 1e6) return `${+(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toFixed(1)}k`;
  return Number.isInteger(value) ? count(value) : `${+value.toFixed(2)}`;
}

/** @param {number} value @param {string} noun @param {string} [nouns] */
export const plural = (value, noun, nouns = `${noun}s`) => `${count(value)} ${value === 1 ? noun : nouns}`;

/** Minutes and seconds, and hours or days if there are any. @param {number} ms */
export function clock(ms) {
  const s = Math.floor(ms / 1000);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  if (s < 86_400) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 86_400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** An age: `4 s`, `2 min`, `3 h`, `2 d`. @param {number} ms */
export function ago(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

/** A time of today as `14:02:11`, any other with its date. @param {number} at ms since 1970 @param {number} [now] */
export function moment(at, now = Date.now()) {
  const [then, today] = [new Date(at), new Date(now)];
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const time = `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}`;
  return then.toDateString() === today.toDateString() ? time : `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${time}`;
}

/**
 * @typedef {object} State a replica's state, as `docs/reference/live.md` has it
 * @property {string} name
 * @property {string} meaning
 * @property {string} sign
 * @property {boolean} takes_requests
 * @property {boolean} alarming
 */

/** @type {State[]} from the least severe to the worst */
let states = [];

/** @param {State[] | undefined} told all states, in the server's order */
export function learnStates(told) {
  states = told ?? [];
}

/** A state with its label and its severity, for sorting. @param {string} name @returns {State & {text: string, severity: number}} */
export function stateOf(name) {
  const severity = states.findIndex((state) => state.name === name);
  const state = states[severity] ?? { name, meaning: "", sign: "?", takes_requests: true, alarming: false };
  return { ...state, text: name.replaceAll("_", " "), severity };
}

/** Reasons of picks, for legends, and as the end of "chosen because …". */
const REASONS = {
  cold: ["cold, lowest latency", "of the cold reports, its latency was the lowest"],
  hot: ["all hot, lowest RIF", "all reports were hot, and its requests in flight were the fewest"],
  fallback: ["too few reports, random", "fewer than two reports were usable: chance"],
  panic: ["none available, so any", "no replica was available, so all were"],
  sole_answer: ["only answer", "it was the only one that answered"],
  random: ["random", "chance, which is the policy"],
  turn: ["its turn", "it was its turn"],
  least_loaded: ["fewest of ours in flight", "it had the fewest of this worker's requests in flight"],
  lowest_score: ["lowest score", "it had the lowest score among the reports"],
  lowest_cost: ["lowest cost of those drawn", "of those drawn, latency times requests in flight was the lowest"],
  lowest_rif: ["lowest RIF of those drawn", "of those drawn, it had the fewest requests in flight when last probed"],
  weighted: ["by weight", "chance, in proportion to weights"],
  pinned: ["pinned", "the request was pinned to it"],
  trial: ["trial", "it is ejected; this request is a trial"],
  last_resort: ["last resort", "it was not available, but all that were had had the request"],
  key_home: ["home of its key", "it is the home of the request's key"],
  key_set: ["of its key's set", "the home of the request's key was busy or out, and it is of the key's set"],
  key_spill: ["key's set busy", "all of the key's set were busy or out"],
  room: ["first with room", "all were full, and it was the first to have room"],
};

/** @param {string} reason @param {string} [policy] the policy, which names its score */
export const reasonName = (reason, policy) => ofPolicy(REASONS[/** @type {keyof REASONS} */ (reason)]?.[0] ?? reason.replaceAll("_", " "), reason, policy);
/** @param {string} reason @param {string} [policy] */
export const reasonText = (reason, policy) => ofPolicy(REASONS[/** @type {keyof REASONS} */ (reason)]?.[1] ?? reason.replaceAll("_", " "), reason, policy);

/** @param {string} text @param {string} reason @param {string | undefined} policy */
const ofPolicy = (text, reason, policy) => (reason === "lowest_score" ? text.replace("score", policyOf(policy).score) : text);

/**
 * @typedef {object} Policy a policy, as `docs/reference/live.md` has it
 * @property {string} name
 * @property {string} about
 * @property {string} reports
 * @property {string} carried
 * @property {string} comparison its usual comparison
 * @property {string} score the first factor of that comparison
 */

/** @type {Map<string, Policy>} */
const policies = new Map();

/** @param {Policy[] | undefined} told all policies */
export function learnPolicies(told) {
  for (const policy of told ?? []) policies.set(policy.name, policy);
}

/** @param {string | undefined} name @returns {Policy} */
export function policyOf(name = "none") {
  const about = name === "none" ? "There is nothing to choose." : "";
  return policies.get(name) ?? { name, about, reports: "none", carried: "nothing", comparison: "", score: "score" };
}

/**
 * @typedef {object} Factor a figure that is compared
 * @property {string} key
 * @property {string} name
 * @property {string} unit
 */

/**
 * @typedef {object} Comparison how replicas are compared, as `docs/reference/decisions.md` has it
 * @property {string} name
 * @property {string} formula
 * @property {Factor[]} shared
 * @property {Factor[]} factors
 * @property {{by: string, best: string, unless?: string}[]} order
 * @property {string} equals
 */

/** @type {Map<string, Comparison>} */
const comparisons = new Map();

/** @param {Comparison[] | undefined} told all comparisons */
export function learnComparisons(told) {
  for (const comparison of told ?? []) comparisons.set(comparison.name, comparison);
}

/** @param {string | undefined} name @returns {Comparison | null} */
export const comparisonOf = (name) => comparisons.get(name ?? "") ?? null;

/** A factor's value with its unit. @param {Factor} factor @param {number | null | undefined} value */
export function figure(factor, value) {
  if (value === null || value === undefined) return NONE;
  if (factor.unit === "microseconds") return value < 1000 ? `${Math.round(value)} µs` : `${(value / 1000).toFixed(value < 99_500 ? 2 : 0)} ms`;
  if (factor.unit === "share") return percent(value);
  if (factor.unit === "flag") return value ? "yes" : "no";
  return String(+value.toFixed(2));
}

/** The formula, and the values that all candidates share. @param {Comparison} comparison @param {Record<string, number>} [shared] */
export const formulaText = (comparison, shared = {}) => [comparison.formula, ...comparison.shared.map((factor) => `${factor.name} ${figure(factor, shared[factor.key])}`)].join("; ");

/** Whether the policy chooses among stored reports. @param {string} policy */
export const isPooled = (policy) => ["pool", "latest"].includes(policyOf(policy).reports);

/**
 * Names without their common start and end, for narrow columns: `10.0.0.1:80`, `10.0.0.2:80` → `1`, `2`.
 * @param {string[]} names
 * @returns {string[]}
 */
export function shortNames(names) {
  if (names.length < 2) return names.slice();
  const common = (/** @type {(name: string, at: number) => string} */ letter) => {
    let at = 0;
    const least = Math.min(...names.map((name) => name.length)) - 1;
    while (at < least && names.every((name) => letter(name, at) === letter(names[0], at))) at++;
    return at;
  };
  let head = common((name, at) => name[at]);
  // A number is not split.
  while (head > 0 && /[0-9]/.test(names[0][head - 1])) head--;
  const rest = names.map((name) => name.slice(head));
  let tail = 0;
  const least = Math.min(...rest.map((name) => name.length)) - 1;
  while (tail < least && rest.every((name) => name.at(-1 - tail) === rest[0].at(-1 - tail))) tail++;
  while (tail > 0 && /[0-9a-z]/i.test(rest[0][rest[0].length - tail])) tail--;
  return rest.map((name) => name.slice(0, name.length - tail) || name);
}
