// The rule, as the next pick would go by it. The hot-cold rule: cold before hot, cold by latency, hot by requests in flight. For
// policies that compare something of their own: the lowest score.

/**
 * @typedef {object} Report a report in the pool
 * @property {number} worker
 * @property {number} replica its place in the fleet
 * @property {number} rif
 * @property {number | null} latency_us
 * @property {number} age_ms
 * @property {number | null} uses_left
 * @property {boolean} hot
 * @property {boolean} local
 * @property {number | null} score_us what is compared, for policies that compare something of their own
 * @property {boolean} [next] the one that the policy takes next, of equal scores, too
 */

/** @param {number[]} values */
function median(values) {
  const sorted = values.slice().sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : 0;
}

/**
 * Reports in the order in which the rule prefers them. An unknown latency counts as the median of the known ones. What decides
 * between equal scores is the policy's own business: it says who is next.
 * @param {Report[]} pool
 * @returns {Report[]}
 */
export function inOrder(pool) {
  const score = (/** @type {Report} */ report) => report.score_us ?? 0;
  const middle = median(pool.flatMap((report) => report.latency_us ?? []));
  const latency = (/** @type {Report} */ report) => report.latency_us ?? middle;
  return pool.slice().sort((a, b) => {
    if (score(a) !== score(b)) return score(a) - score(b);
    if (a.next !== b.next && (a.next || b.next)) return a.next ? -1 : 1;
    if (a.hot !== b.hot) return a.hot ? 1 : -1;
    return a.hot ? a.rif - b.rif || latency(a) - latency(b) : latency(a) - latency(b) || a.rif - b.rif;
  });
}

/** Policies that go by the hot-cold rule, and how many reports they need to. @type {Record<string, number>} */
const RULED = { prequal: 2, rif_then_latency: 1 };
/** Policies that keep the latest report of each replica. Where none is fresh, they go by the requests that they have in flight themselves. */
const KEEP_LATEST = ["rif_then_latency", "shortest_expected_delay"];

/** What decides where so few reports are in a pool that none does; nothing where they do. @param {string} policy @param {number} reports */
export function withoutReports(policy, reports) {
  if (reports === 0 && KEEP_LATEST.includes(policy)) return "No report is fresh at this moment: the fewest of this worker's own requests in flight decide.";
  if (reports === 0) return "The pool is empty at this moment: chance decides.";
  return reports === 1 && !KEEP_LATEST.includes(policy) ? "Just one report is left in the pool: chance decides until there are two." : "";
}

/** Those with the lowest score, in the order in which they are. @param {Report[]} order */
export const lowestOf = (order) => order.filter((report) => report.score_us === order[0]?.score_us);

/**
 * What the next pick would take, if the policy goes by this rule and has enough to go by, and chance does not draw among equals.
 * @param {string} policy
 * @param {Report[]} pool of one worker
 * @returns {{order: Report[], next: Report | null, cold: number, scored: boolean}}
 */
export function nextPick(policy, pool) {
  // There are scores only where there are reports enough to choose by them.
  const scored = pool.some((report) => (report.score_us ?? null) !== null);
  const known = scored || policy in RULED;
  const order = known ? inOrder(pool) : pool.slice().sort((a, b) => a.age_ms - b.age_ms);
  const cold = pool.filter((report) => !report.hot).length;
  const enough = scored ? order[0].next || lowestOf(order).length === 1 : known && pool.length >= RULED[policy];
  const next = enough ? order[0] : null;
  return { order, next, cold, scored };
}

/**
 * The limit that a worker's reports were told hot and cold by, as far as they show it: the fleet's, where that fits them. Each
 * worker has a limit of its own, and only the median of all is known here.
 * @param {Report[]} pool of one worker
 * @param {number | null} limit the median
 * @returns {number | null}
 */
export function limitOf(pool, limit) {
  if (limit === null) return null;
  const least = pool.reduce((least, { hot, rif }) => (hot ? least : Math.max(least, rif + 1)), 0);
  const most = pool.reduce((most, { hot, rif }) => (hot ? Math.min(most, rif) : most), Infinity);
  return Math.max(least, Math.min(most, limit));
}
