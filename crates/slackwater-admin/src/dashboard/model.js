// What the page knows: the fleet and the newest tick, put together, and the last minutes of each
// service. The only place that knows how the messages of `/events` and `/history` are written.

import { Recent } from "./recent.js";
import { Series } from "./series.js";
import { learnComparisons, learnPolicies, learnStates, shortNames, stateOf } from "./words.js";

/** Time that is kept, as the process keeps it. */
export const WINDOW_MS = 900_000;

/**
 * @typedef {object} Replica one replica as it is now
 * @property {number} index
 * @property {string} name
 * @property {string} short its name where there is little room
 * @property {string} address
 * @property {string} state
 * @property {boolean} out whether it gets no requests: by its state, or because its tier is not in use
 * @property {number | null} since ms since 1970 at which its state began; `null` where it has been so since the start
 * @property {string} why it is in that state; empty where there is none
 * @property {string} remedy what can be done about it; empty where there is nothing
 * @property {number | null} checked ms since 1970 at which its last health check ended, of one that is not well
 * @property {boolean} alarming whether an operator has to know of its state
 * @property {number} rif requests in flight, as it reported last; ours where it never did
 * @property {number} ours requests of this process that are there now
 * @property {boolean} reported whether it ever reported
 * @property {number | null} latency as reported, or as seen where it does not report
 * @property {number | null} p50
 * @property {number | null} p99
 * @property {number | null} age ms since it reported
 * @property {number | null} capacity requests in flight that it reports it can carry
 * @property {number | null} cost µs that a request costs there, as it reports: CPU time, or what stands for it
 * @property {number | null} full of what it can carry, so much is in flight there: 1 is all; both as it reported last
 * @property {boolean | null} hot whether that report has reached the limit; `null` where there is no report or no limit
 * @property {number} share of the requests sent in the last seconds, 0 to 1
 * @property {number} rate requests sent there per second, over the last seconds
 * @property {number} failed of those that ended there in the last seconds
 * @property {number} failures the same per second
 * @property {number} allowed the part of its usual load that it may have, 0 to 1
 * @property {Trouble | null} trouble in the demo
 */

/**
 * @typedef {object} Trouble
 * @property {number} taken of its machine, in percent
 * @property {string} fault
 * @property {number} failing in percent
 * @property {boolean} slowed by an episode
 * @property {number} cores
 */

/** A service: what the fleet has of it, and the newest tick. */
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
    /** Requests that ended in the last seconds, as clients saw it. */
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

  /** The median limit of the workers; none where nothing is hot. @returns {number | null} */
  get limit() {
    return this.tick?.rif_limit?.median ?? null;
  }

  /** Whether any request ever came, as far back as is known. */
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

  /** @param {any} fleet @returns {boolean} whether everything is another one: another process */
  handleFleet(fleet) {
    const anew = !this.fleet || this.fleet.process !== fleet.process || this.fleet.role !== fleet.role;
    const before = anew ? [] : this.services;
    const places = Math.ceil(WINDOW_MS / Math.max(100, fleet.interval_ms));
    this.fleet = fleet;
    learnPolicies(fleet.policies);
    learnComparisons(fleet.comparisons);
    learnStates(fleet.replica_states);
    this.services = fleet.services.map((/** @type {any} */ told, /** @type {number} */ index) => {
      // A side of the demo keeps its place, and its past, when its policy has another name.
      const known = fleet.role === "demo" ? before[index] : before.find((service) => service.name === told.name);
      const service = known ?? new Service(told, index);
      if (!known) service.series = new Series(places);
      const changed = known && JSON.stringify(known.told.replicas) !== JSON.stringify(told.replicas);
      service.index = index;
      service.rename(told);
      // Its columns were those of another fleet.
      if (changed) [service.tick, service.replicas, service.recent] = [null, [], new Recent()];
      return service;
    });
    if (anew) this.tick = null;
    return anew;
  }

  /** What was of another process. */
  forget() {
    for (const service of this.services) {
      service.series = new Series(service.series.capacity);
      [service.recent, service.ended] = [new Recent(), new Recent()];
      service.hasHistory = false;
    }
  }

  /** @param {any} tick @returns {boolean} whether it could be taken: it goes by the fleet that is known */
  handleTick(tick) {
    if (!this.fleet || tick.revision !== this.fleet.revision || tick.services.length !== this.services.length) return false;
    // In a container a process has the same number each time.
    if (this.tick && tick.uptime_ms < this.tick.uptime_ms) this.forget();
    this.tick = tick;
    this.services.forEach((service, index) => {
      service.tick = tick.services[index];
      const { sent, failed } = service.tick.replicas;
      service.recent.push(tick.at_ms, tick.interval_ms, sent, failed);
      service.ended.push(tick.at_ms, tick.interval_ms, [service.tick.requests], [service.tick.failed]);
      service.replicas = replicasOf(this.fleet, service, tick);
      const values = sample(service.tick, tick.interval_ms);
      // What did not occur is left out of a tick.
      for (const name of service.series.columns.keys()) if (/^(picks|probes)\./.test(name)) values[name] ??= 0;
      if (tick.demo) values.trouble = service.replicas.some((replica) => troubleText(replica.trouble)) ? 1 : 0;
      service.series.push(tick.at_ms, values);
    });
    return true;
  }

  /**
   * The past of a service, from before the page was opened, or while it had no connection.
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
 * Probes by the few kinds that are shown: those that were skipped are one. For counts and for columns of them.
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

/** What the series keep of a tick; counts by the second. @param {any} told @param {number} ms @returns {Record<string, number | null>} */
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
      since: standing?.since_ms ?? null, why: standing?.why ?? "", remedy: remedies.get(standing?.why) ?? "", checked: standing?.checked_at_ms ?? null, alarming: stateOf(state).alarming,
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

/** A trouble in words; none: "". @param {Trouble | null} trouble */
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
