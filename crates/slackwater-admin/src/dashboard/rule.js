// The next pick. The server sends a policy's reports in the order of preference; this page only
// displays them.

import { policyOf } from "./words.js";

/**
 * @typedef {object} Report a report in the pool; they come worker by worker, the best first
 * @property {number} worker
 * @property {number} replica its index in the fleet
 * @property {number} rif
 * @property {number | null} latency_us
 * @property {number} age_ms
 * @property {number | null} uses_left
 * @property {boolean} hot
 * @property {boolean} local
 * @property {number | null} rank its rank in the order of choice; `null` if reports do not decide
 * @property {Record<string, number>} [factors] the compared values by key; left out if nothing is compared
 * @property {boolean} [next] whether the policy picks it next; left out if chance decides between equals
 */

/** Describes what decides when the pool has too few reports; "" if it has enough. @param {string} policy @param {number} reports */
export function withoutReports(policy, reports) {
  const latest = policyOf(policy).reports === "latest";
  if (reports === 0 && latest) return "No report is fresh at this moment: the fewest of this worker's own requests in flight decide.";
  if (reports === 0) return "The pool is empty at this moment: chance decides.";
  return reports === 1 && !latest ? "Just one report is left in the pool: chance decides until there are two." : "";
}

/** Returns the reports that are as good as the first. @param {Report[]} pool of one worker */
export function equalsOf(pool) {
  const values = (/** @type {Report | undefined} */ report) => JSON.stringify(report?.factors ?? {});
  return pool.filter((report) => values(report) === values(pool[0]));
}

/** Whether all reports are this worker's own measurements. @param {Report[]} pool */
export const isMeasuredHere = (pool) => pool.length > 0 && pool.every((report) => report.local);

/**
 * Returns the report that the next pick would use; `null` if nothing is compared or if chance draws among equals.
 * @param {Report[]} pool of one worker
 * @returns {Report | null}
 */
export function nextPick(pool) {
  const isCompared = (pool[0]?.rank ?? null) !== null;
  return isCompared && (pool[0].next || equalsOf(pool).length === 1) ? pool[0] : null;
}

/**
 * Estimates the limit of a worker from its reports: the fleet's median, adjusted to the hot and cold reports. Each
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
