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
 */

/** @param {number[]} values */
function median(values) {
  const sorted = values.slice().sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : 0;
}

/**
 * Reports in the order in which the rule prefers them. An unknown latency counts as the median of the known ones.
 * @param {Report[]} pool
 * @returns {Report[]}
 */
export function inOrder(pool) {
  const score = (/** @type {Report} */ report) => report.score_us ?? 0;
  const middle = median(pool.flatMap((report) => report.latency_us ?? []));
  const latency = (/** @type {Report} */ report) => report.latency_us ?? middle;
  return pool.slice().sort((a, b) => {
    if (score(a) !== score(b)) return score(a) - score(b);
    if (a.hot !== b.hot) return a.hot ? 1 : -1;
    return a.hot ? a.rif - b.rif || latency(a) - latency(b) : latency(a) - latency(b) || a.rif - b.rif;
  });
}

const RULED = ["prequal", "rif_then_latency"];

/**
 * What the next pick would take, if the policy goes by this rule and has enough to go by.
 * @param {string} policy
 * @param {Report[]} pool of one worker
 * @returns {{order: Report[], next: Report | null, cold: number, scored: boolean}}
 */
export function nextPick(policy, pool) {
  // There are scores only where there are reports enough to choose by them.
  const scored = pool.some((report) => (report.score_us ?? null) !== null);
  const known = scored || RULED.includes(policy);
  const order = known ? inOrder(pool) : pool.slice().sort((a, b) => a.age_ms - b.age_ms);
  const cold = pool.filter((report) => !report.hot).length;
  const next = scored || (known && pool.length >= 2) ? order[0] : null;
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
