// Filters and sorts the replicas that are shown.

import { stateOf } from "./words.js";
import { troubleText } from "./model.js";

/** @typedef {import("./model.js").Replica} Replica */

/** The sort orders: key and label. */
export const ORDERS = [["given", "as configured"], ["name", "name"], ["rif", "requests in flight"], ["full", "how full they are"], ["latency", "latency"], ["share", "share"], ["state", "state"]];

/** @type {Record<string, (replica: Replica) => number>} the largest value comes first */
const KEYS = {
  rif: (replica) => replica.rif,
  full: (replica) => replica.full ?? -1,
  latency: (replica) => replica.latency ?? -1,
  share: (replica) => replica.share,
  state: (replica) => stateOf(replica.state).severity + (replica.hot ? 0.5 : 0) + (troubleText(replica.trouble) ? 10 : 0),
};

/** Compares numbers in names by their value. */
const NAMES = new Intl.Collator("en", { numeric: true });

/**
 * Replicas that match a filter. Each of its words must be in the name, the address, the state or the trouble, or be `hot` or `cold`.
 * @param {Replica[]} replicas
 * @param {string} filter
 */
export function matching(replicas, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return replicas;
  return replicas.filter((replica) => {
    const heat = replica.hot === null ? "" : replica.hot ? "hot" : "cold";
    const text = `${replica.name} ${replica.address} ${stateOf(replica.state).text} ${replica.state} ${troubleText(replica.trouble)} ${heat}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/**
 * @param {Replica[]} replicas
 * @param {string} sort
 * @param {string} filter
 */
export function arranged(replicas, sort, filter) {
  const found = matching(replicas, filter);
  if (sort === "name") return found.slice().sort((a, b) => NAMES.compare(a.name, b.name) || a.index - b.index);
  const key = KEYS[sort];
  if (!key) return found;
  return found.slice().sort((a, b) => key(b) - key(a) || a.index - b.index);
}
