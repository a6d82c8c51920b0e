// Figures and states in words: the one way in which the page writes them.

/** @param {number} value */
export const count = (value) => Math.round(value).toLocaleString("en-US");

const NONE = "–";

/** Microseconds as people say them: `0.4 ms`, `9.4 ms`, `142 ms`, `1.31 s`. @param {number | null | undefined} us */
export function span(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return NONE;
  const ms = us / 1000;
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 9_999.5) return `${count(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 99_950 ? 1 : 0)} s`;
}

/** For an axis: `1 ms`, `10 ms`, `1 s`. @param {number} us */
export const spanMark = (us) => (us < 1000 ? `${us} µs` : us < 1_000_000 ? `${us / 1000} ms` : `${us / 1_000_000} s`);

/** A part of a whole: `0 %`, `0.4 %`, `12 %`. @param {number | null | undefined} part */
export function percent(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return NONE;
  const value = part * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "< 0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${Math.round(value)} %`;
}

/** What can be carried, of thousandths of a request in flight: `4.5`, `120`. @param {number | null | undefined} millirif */
export function carries(millirif) {
  if (millirif === null || millirif === undefined || Number.isNaN(millirif)) return NONE;
  return millirif < 99_950 ? (millirif / 1000).toFixed(1) : count(millirif / 1000);
}

/** What a request costs, which may be very little: `85 µs`, `2.1 ms`. @param {number | null | undefined} us */
export function cost(us) {
  if (us === null || us === undefined || Number.isNaN(us)) return NONE;
  return us < 1000 ? `${Math.round(us)} µs` : span(us);
}

/** Per second: `12.5`, `400`, `2,000`. @param {number | null | undefined} value */
export function rate(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  return value < 99.95 && value % 1 !== 0 ? value.toFixed(1) : count(value);
}

/** For an axis: `0`, `0.5`, `200`, `2k`, `1.5M`. @param {number} value */
export function shortCount(value) {
  if (value >= 1e6) return `${+(value / 1e6).toFixed(1)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toFixed(1)}k`;
  return Number.isInteger(value) ? count(value) : `${+value.toFixed(2)}`;
}

/** @param {number} value @param {string} noun @param {string} [nouns] */
export const plural = (value, noun, nouns = `${noun}s`) => `${count(value)} ${value === 1 ? noun : nouns}`;

/** Minutes and seconds, and hours or days where there are some. @param {number} ms */
export function clock(ms) {
  const s = Math.floor(ms / 1000);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  if (s < 86_400) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 86_400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** Where a replica stands: its sign in pictures, its words, whether it may be chosen, and how grave it is for sorting. */
const STATES = {
  available: { sign: "", text: "available", out: false, grave: 0 },
  warming_up: { sign: "▴", text: "warming up", out: false, grave: 2 },
  returning: { sign: "▴", text: "returning", out: false, grave: 2 },
  silent: { sign: "?", text: "answers no probes", out: false, grave: 1 },
  pushing_back: { sign: "▾", text: "pushing back", out: false, grave: 3 },
  held_back: { sign: "▾", text: "held back", out: false, grave: 4 },
  on_probation: { sign: "!", text: "on probation", out: true, grave: 5 },
  draining: { sign: "↓", text: "draining", out: true, grave: 5 },
  out: { sign: "·", text: "not in use: its weight is 0", out: true, grave: 1 },
  unavailable: { sign: "✕", text: "cannot be chosen", out: true, grave: 5 },
  lost: { sign: "∅", text: "lost: answers no probes any more", out: true, grave: 6 },
  ejected: { sign: "✕", text: "ejected for its failures", out: true, grave: 7 },
  down: { sign: "✕", text: "down by its health checks", out: true, grave: 8 },
};

/** @param {string} code @returns {{sign: string, text: string, out: boolean, grave: number}} */
export const stateOf = (code) => STATES[/** @type {keyof STATES} */ (code)] ?? { sign: "?", text: code.replaceAll("_", " "), out: false, grave: 1 };

/** What decided, for legends, and as the end of "chosen because …". */
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
  lowest_rif: ["lowest RIF of those drawn", "of those drawn, it had the fewest requests in flight when last asked"],
  weighted: ["by weight", "chance, in proportion to weights"],
  pinned: ["pinned", "the request was pinned to it"],
  trial: ["trial", "it is out of the choice, and the request was to show how it does"],
  last_resort: ["last resort", "it was not available, but all that were had had the request"],
  room: ["first with room", "all were full, and it was the first to have room"],
};

/** @param {string} reason @param {string} [policy] whose reason it is, which says what its score is */
export const reasonName = (reason, policy) => ofPolicy(REASONS[/** @type {keyof REASONS} */ (reason)]?.[0] ?? reason.replaceAll("_", " "), reason, policy);
/** @param {string} reason @param {string} [policy] */
export const reasonText = (reason, policy) => ofPolicy(REASONS[/** @type {keyof REASONS} */ (reason)]?.[1] ?? reason.replaceAll("_", " "), reason, policy);

/** @param {string} text @param {string} reason @param {string | undefined} policy */
const ofPolicy = (text, reason, policy) => (reason === "lowest_score" ? text.replace("score", scoreOf(policy).name) : text);

/** How policies choose: whether they look at a pool of reports, and a sentence for people. */
const POLICIES = {
  prequal: [true, "Asks a few replicas for their load, keeps the answers in a pool, and picks by the hot-cold rule."],
  prequal_sync: [false, "Asks a few replicas for each request and picks among the answers by the hot-cold rule."],
  linear: [true, "Asks replicas for their load; the lowest weighted sum of RIF and latency wins."],
  c3: [true, "Asks replicas for their load; response time and the cube of the queue decide."],
  rif_then_latency: [true, "Asks replicas for their load; of those with the fewest requests in flight, the fastest wins."],
  shortest_expected_delay: [true, "Asks replicas for their load; the fewest requests in flight, each counted by how long they take there, win."],
  capacity: [true, "Goes by how much of what each replica can carry is in use, and by what a request costs there; as prequal where that is not reported."],
  least_loaded: [false, "Picks the replica with the fewest of its own requests in flight. Asks nobody."],
  power_of_d: [false, "Draws a few replicas and picks the one with the fewest of its own requests in flight."],
  peak_ewma: [false, "Draws a few replicas; its own measure of latency times requests in flight decides."],
  els: [false, "Draws by weights that follow latencies and failures it has seen."],
  polled_power_of_d: [false, "Polls requests in flight; of a few drawn, the fewest wins."],
  weighted_round_robin: [false, "Each in turn, more often those that need less CPU for a request."],
  round_robin: [false, "Each replica in turn, whatever its load."],
  random: [false, "A replica at random, whatever its load."],
  none: [false, "There is nothing to choose."],
};

/** @param {string} policy @returns {{pooled: boolean, about: string}} */
export function policyOf(policy) {
  const [pooled, about] = POLICIES[/** @type {keyof POLICIES} */ (policy)] ?? [false, ""];
  return { pooled: Boolean(pooled), about: String(about) };
}

/** What a policy compares that is no figure of a report: its name, how it comes about, and who is chosen of equals, where it is not chance. */
const SCORES = {
  shortest_expected_delay: [
    "expected delay", "Counted for each: the requests in flight there and this one, and a part of one more if it had more than its turn lately, times how long they take there in the mean.",
    "of equals it goes to the one whose last turn is longest ago",
  ],
  capacity: ["score", "Counted for each: how full it is, and a little more if it had more than its turn lately, times what a request costs there.", "of equals it goes to the one of the lower latency"],
  linear: ["score", "Counted for each: the weighted sum of requests in flight and latency.", ""],
  c3: ["score", "Counted for each: the cube of the queue times how long a request takes to serve, and the response time.", ""],
};

/** @param {string | undefined} policy @returns {{name: string, about: string, equals: string}} */
export function scoreOf(policy) {
  const [name, about, equals] = SCORES[/** @type {keyof SCORES} */ (policy)] ?? ["score", "", ""];
  return { name, about, equals };
}

export const POLICY_NAMES = Object.keys(POLICIES).filter((name) => name !== "none");

/**
 * Names without what they all begin and end with, for where there is little room: `10.0.0.1:80`, `10.0.0.2:80` → `1`, `2`.
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
  // A number is not cut in two.
  while (head > 0 && /[0-9]/.test(names[0][head - 1])) head--;
  const rest = names.map((name) => name.slice(head));
  let tail = 0;
  const least = Math.min(...rest.map((name) => name.length)) - 1;
  while (tail < least && rest.every((name) => name.at(-1 - tail) === rest[0].at(-1 - tail))) tail++;
  while (tail > 0 && /[0-9a-z]/i.test(rest[0][rest[0].length - tail])) tail--;
  return rest.map((name) => name.slice(0, name.length - tail) || name);
}
