// The page's data: the fleet merged with the newest tick, and the last minutes of each service.
// Only this module depends on the format of the messages of `/events` and `/history`.

import { Recent } from "./recent.js";
import { Series } from "./series.js";
import { learnComparisons, learnPolicies, learnStates, shortNames, stateOf } from "./words.js";

/** Time span that is kept, the same as in the process. */
export const WINDOW_MS = 900_000;

/**
 * @typedef {object} Replica one replica as it is now
 * @property {number} index
 * @property {string} name
 * @property {string} short a short name for narrow columns
 * @property {string} address
 * @property {string} state
 * @property {boolean} out whether it gets no requests: by its state, or because its tier is not in use
 * @property {number} at ms since 1970 of all this, by the process's clock, which may differ from the browser's
 * @property {number | null} since ms since 1970 at which its state began; `null` if it is older than the process
 * @property {string} why the reason; empty if there is none
 * @property {string} remedy how to fix it; empty if there is nothing to do
 * @property {number | null} checked ms since 1970 at which its last health check ended, if its state is alarming
 * @property {boolean} alarming whether an operator must know of its state
 * @property {number} rif requests in flight by its last report; without one, requests of this process
 * @property {number} ours requests in flight from this process
 * @property {boolean} reported whether it ever reported
 * @property {number | null} latency as reported, or as measured if it does not report
 * @property {number | null} p50
 * @property {number | null} p99
 * @property {number | null} age ms since its last report
 * @property {number | null} capacity the capacity that it reports, in requests in flight
 * @property {number | null} cost µs that a request costs there, as it reports: CPU time, or a substitute
 * @property {number | null} full requests in flight divided by capacity, both by its last report
 * @property {boolean | null} hot whether that report has reached the limit; `null` without a report or a limit
 * @property {number} share of the requests sent in the last seconds, 0 to 1
 * @property {number} rate requests sent there per second, over the last seconds
 * @property {number} failed requests that failed there in the last seconds
 * @property {number} failures failed requests per second
 * @property {number} allowed the share of its usual load that it may get, 0 to 1
 * @property {Trouble | null} trouble in the demo
 */

/**
 * @typedef {object} Trouble
 * @property {number} taken share of its machine that a neighbour takes, in percent
 * @property {string} fault
 * @property {number} failing share of requests that fail, in percent
 * @property {boolean} slowed whether an episode slows it
 * @property {number} cores
 */

/** A service: its part of the fleet and of the newest tick. */
export class Service {
  /** @param {any} told @param {number} index */
  constructor(told, index) {
    this.index = index;
    /** @type {Series} */
    this.series = new Series(1);
    /** @type {any} the newest tick's part; none before the first */
    this.tick = null;
    /** @type {Replica[]} */
    this.replicas = [];
    this.recent = new Recent();
    /** Requests that ended in the last seconds, as clients saw them. */
    this.ended = new Recent();
    this.hasHistory = false;
    this.told = told;
    this.rename(told);
  }

  /** @param {any} told */
  rename(told) {
    this.told = told;
    this.name = told.name;
    this.policy = told.policy;
    this.short = shortNames(told.replicas.map((/** @type {any} */ replica) => replica.name));
  }

  /** The median limit of the workers; `null` if nothing is hot. @returns {number | null} */
  get limit() {
    return this.tick?.rif_limit?.median ?? null;
  }

  /** Whether there was any request in the known history. */
  get hasTraffic() {
    return (this.series.most("rate") ?? 0) > 0 || this.replicas.some((replica) => replica.ours > 0);
  }

  /** @returns {number[]} the workers that have reports */
  get workers() {
    /** @type {number[]} */
    const workers = (this.tick?.pool ?? []).map((/** @type {any} */ report) => report.worker);
    return [...new Set(workers)].sort((a, b) => a - b);
  }
}

export class Model {
  constructor() {
    /** @type {any} */
    this.fleet = null;
    /** @type {any} */
    this.tick = null;
    /** @type {Service[]} */
    this.services = [];
  }

  get isDemo() {
    return this.fleet?.role === "demo";
  }

  /** @param {any} fleet @returns {boolean} whether it is of another process */
  handleFleet(fleet) {
    const anew = !this.fleet || this.fleet.process !== fleet.process || this.fleet.role !== fleet.role;
    const before = anew ? [] : this.services;
    const places = Math.ceil(WINDOW_MS / Math.max(100, fleet.interval_ms));
    this.fleet = fleet;
    learnPolicies(fleet.policies);
    learnComparisons(fleet.comparisons);
    learnStates(fleet.replica_states);
    this.services = fleet.services.map((/** @type {any} */ told, /** @type {number} */ index) => {
      // A side of the demo keeps its index and its history when its policy has another name.
      const known = fleet.role === "demo" ? before[index] : before.find((service) => service.name === told.name);
      const service = known ?? new Service(told, index);
      if (!known) service.series = new Series(places);
      const changed = known && JSON.stringify(known.told.replicas) !== JSON.stringify(told.replicas);
      service.index = index;
      service.rename(told);
      // The columns belong to the previous fleet.
      if (changed) [service.tick, service.replicas, service.recent] = [null, [], new Recent()];
      return service;
    });
    if (anew) this.tick = null;
    return anew;
  }

  /** Drops the data of the previous process, or of before its clock was set back. */
  forget() {
    for (const service of this.services) {
      service.series = new Series(service.series.capacity);
      [service.recent, service.ended] = [new Recent(), new Recent()];
      service.hasHistory = false;
    }
  }

  /** @param {any} tick @returns {boolean} whether it was accepted: it must belong to the current fleet */
  handleTick(tick) {
    if (!this.fleet || tick.revision !== this.fleet.revision || tick.services.length !== this.services.length) return false;
    // A process in a container has the same number after each start. After its clock was set back,
    // the times of earlier data mean nothing, and no newer data would be taken.
    if (this.tick && (tick.uptime_ms < this.tick.uptime_ms || tick.at_ms < this.tick.at_ms)) this.forget();
    this.tick = tick;
    this.services.forEach((service, index) => {
      service.tick = tick.services[index];
      const { sent, failed } = service.tick.replicas;
      service.recent.push(tick.at_ms, tick.interval_ms, sent, failed);
      service.ended.push(tick.at_ms, tick.interval_ms, [service.tick.requests], [service.tick.failed]);
      service.replicas = replicasOf(this.fleet, service, tick);
      const values = sample(service.tick, tick.interval_ms);
      // Counts of 0 are left out of a tick.
      for (const name of service.series.columns.keys()) if (/^(picks|probes)\./.test(name)) values[name] ??= 0;
      if (tick.demo) values.trouble = service.replicas.some((replica) => troubleText(replica.trouble)) ? 1 : 0;
      service.series.push(tick.at_ms, values);
    });
    return true;
  }

  /**
   * Adds the history of a service from before the page was opened or while it had no connection.
   * @param {Service} service
   * @param {any} history
   */
  handleHistory(service, history) {
    const { at_ms: at, picks, probes } = history;
    const seen = service.series;
    const known = new Set(seen.at);
    const seconds = Math.max(history.interval_ms, 1) / 1000;
    /** @type {[number, Record<string, number | null>][]} */
    const samples = [];
    for (let i = 0; i < at.length; i++) {
      if (known.has(at[i])) continue;
      const of = (/** @type {any} */ columns, /** @type {string} */ prefix) =>
        Object.entries(columns).map(([name, column]) => [`${prefix}.${name}`, /** @type {any} */ (column)[i] / seconds]);
      samples.push([at[i], {
        rate: history.rate[i], failures: history.failed[i] / seconds, errors: errorsOf(history.failed[i], history.requests[i]),
        p50: history.p50_us[i], p99: history.p99_us[i], p999: history.p999_us[i], limit: history.rif_limit[i],
        hedges: history.hedges[i] / seconds, retries: history.retries[i] / seconds,
        shed: history.shed[i] / seconds, queued: history.queued[i] / seconds,
        ...Object.fromEntries([...of(picks, "picks"), ...of(grouped(probes), "probes")]),
      }]);
    }
    const names = [...seen.columns.keys()];
    seen.at.forEach((moment, i) => samples.push([moment, Object.fromEntries(names.map((name) => [name, seen.column(name)[i]]))]));
    const past = new Series(seen.capacity);
    for (const [moment, values] of samples.sort(([a], [b]) => a - b)) past.push(moment, values);
    service.series = past;
    service.hasHistory = true;
  }
}

/** @param {number} failed @param {number} requests */
const errorsOf = (failed, requests) => (requests > 0 ? failed / requests : null);

/**
 * Groups probes by the kinds that are shown; all skipped ones are one kind. For single counts and for columns.
 * @param {Record<string, any>} probes
 * @returns {Record<string, any>}
 */
export function grouped(probes) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const [name, value] of Object.entries(probes)) {
    const kind = name.startsWith("skipped_") ? "skipped" : name;
    if (!(kind in found)) found[kind] = value;
    else if (Array.isArray(value)) found[kind] = value.map((one, i) => one + found[kind][i]);
    else found[kind] += value;
  }
  return found;
}

/** The values of a tick that the series keep; counts are per second. @param {any} told @param {number} ms @returns {Record<string, number | null>} */
function sample(told, ms) {
  const seconds = Math.max(ms, 1) / 1000;
  /** @type {Record<string, number | null>} */
  const values = {
    rate: told.rate, failures: told.failed / seconds, errors: errorsOf(told.failed, told.requests),
    p50: told.latency?.p50_us ?? null, p99: told.latency?.p99_us ?? null, p999: told.latency?.p999_us ?? null,
    limit: told.rif_limit?.median ?? null,
  };
  const { admission } = told;
  for (const name of ["hedges", "retries", "queued"]) values[name] = (admission[name] ?? 0) / seconds;
  values.shed = SHED.reduce((sum, name) => sum + (admission[name] ?? 0), 0) / seconds;
  for (const [reason, picks] of Object.entries(told.picks)) values[`picks.${reason}`] = /** @type {number} */ (picks) / seconds;
  for (const [kind, probes] of Object.entries(grouped(told.probes))) values[`probes.${kind}`] = probes / seconds;
  return values;
}

const SHED = ["shed_queue_full", "shed_wait_over", "shed_deadline", "shed_replicas_full"];

/** @param {any} fleet @param {Service} service @param {any} tick @returns {Replica[]} */
function replicasOf(fleet, service, tick) {
  const columns = service.tick.replicas;
  const { sent, failed, seconds } = service.recent;
  const all = sent.reduce((sum, of) => sum + of, 0);
  const standings = new Map((service.tick.standings ?? []).map((/** @type {any} */ it) => [it.replica, it]));
  // A remedy is sent once for each cause.
  const remedies = new Map([...standings.values()].filter((it) => it.remedy).map((it) => [it.why, it.remedy]));
  return service.told.replicas.map((/** @type {any} */ told, /** @type {number} */ i) => {
    const [rif, ours] = [columns.rif[i], columns.in_flight[i]];
    // Columns without a value are left out.
    const millirif = columns.capacity_millirif?.[i] ?? null;
    const state = fleet.states[columns.state[i]] ?? "available";
    const standing = standings.get(i);
    return {
      index: i, name: told.name, short: service.short?.[i] ?? told.name, address: told.address,
      state, out: !stateOf(state).takes_requests || told.tier > (service.tick.tier ?? told.tier),
      at: tick.at_ms, since: standing?.since_ms ?? null, why: standing?.why ?? "", remedy: remedies.get(standing?.why) ?? "", checked: standing?.checked_at_ms ?? null, alarming: stateOf(state).alarming,
      rif: rif ?? ours, ours, reported: rif !== null,
      latency: columns.latency_us[i] ?? columns.p50_us[i], p50: columns.p50_us[i], p99: columns.p99_us[i],
      capacity: millirif === null ? null : millirif / 1000, cost: columns.cost_us?.[i] ?? null, full: rif !== null && millirif ? (rif * 1000) / millirif : null,
      age: columns.report_age_ms[i], hot: columns.hot[i] === null || service.limit === null ? null : columns.hot[i] === 1,
      share: all > 0 ? sent[i] / all : 0, rate: sent[i] / seconds, failed: failed[i], failures: failed[i] / seconds,
      allowed: (columns.share[i] ?? 1000) / 1000,
      trouble: tick.demo ? troubleOf(fleet, tick.demo, i) : null,
    };
  });
}

/** @param {any} fleet @param {any} demo @param {number} i @returns {Trouble} */
function troubleOf(fleet, demo, i) {
  const { taken_percent, fault, failing_percent, capacity_milli } = demo.replicas;
  return {
    taken: taken_percent[i], fault: fleet.demo.faults[fault[i]] ?? "none", failing: failing_percent[i],
    slowed: demo.slowed === i, cores: capacity_milli[i] / 1000,
  };
}

/** A trouble in words; "" if there is none. @param {Trouble | null} trouble */
export function troubleText(trouble) {
  if (!trouble) return "";
  const parts = [];
  if (trouble.fault === "killed") parts.push("killed");
  if (trouble.fault === "stalled") parts.push("stalled");
  if (trouble.fault === "failing") parts.push(trouble.failing < 100 ? `fails ${trouble.failing} %` : "fails");
  if (trouble.taken > 0) parts.push(`neighbour takes ${trouble.taken} %`);
  if (trouble.slowed) parts.push("slow episode");
  return parts.join(", ");
}
