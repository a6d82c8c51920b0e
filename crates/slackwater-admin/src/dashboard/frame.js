// The scales of one fleet's charts. They grow at once and shrink slowly. In the demo each side has
// its own scales, and shows the other side's maximum.

import { CalmMost, roundDown } from "./scales.js";

/** The scale shows capacity up to this multiple of the most requests in flight. */
const ROOM_RATIO_MAX = 4;
/** Smallest ratio between the two ends of the latency scale. */
const LATENCY_RATIO_MIN = 20;

/**
 * @typedef {object} Ghost maximum values of another fleet
 * @property {string} name
 * @property {number} rif
 * @property {number | null} latency µs
 */

/** The current maximum values of a service. @param {import("./model.js").Service} service @returns {Ghost} */
export function ghostOf({ name, replicas }) {
  const latency = Math.max(0, ...replicas.map((replica) => Math.max(replica.latency ?? 0, replica.p99 ?? 0)));
  return { name, rif: Math.max(0, ...replicas.map((replica) => replica.rif)), latency: latency || null };
}

export class Frame {
  constructor() {
    this.calmRif = new CalmMost(5);
    this.calmRate = new CalmMost(1);
    this.calmLatency = new CalmMost(1_000);
    this.rifMost = 5;
    this.rateMost = 1;
    this.latencyLeast = 1_000;
    this.latencyMost = 100_000;
    /** @type {Ghost | null} */
    this.ghost = null;
  }

  /** @param {import("./model.js").Service} service */
  follow(service) {
    let [rif, capacity, rate, most, least] = [(service.limit ?? 0) * 1.4, 0, 0, 0, Infinity];
    for (const replica of service.replicas) {
      rif = Math.max(rif, replica.rif);
      capacity = Math.max(capacity, replica.capacity ?? 0);
      rate = Math.max(rate, replica.rate);
      most = Math.max(most, replica.latency ?? 0, replica.p99 ?? 0);
      if (replica.latency) least = Math.min(least, replica.latency);
    }
    for (const report of service.tick?.pool ?? []) {
      rif = Math.max(rif, report.rif);
      most = Math.max(most, report.latency_us ?? 0);
      if (report.latency_us) least = Math.min(least, report.latency_us);
    }
    this.rifMost = this.calmRif.follow(Math.max(rif, Math.min(capacity, Math.max(rif, 2) * ROOM_RATIO_MAX)));
    this.rateMost = this.calmRate.follow(rate);
    if (least === Infinity) return;
    this.latencyMost = this.calmLatency.follow(Math.max(most, least * LATENCY_RATIO_MIN));
    // The lower end moves down at once, and up only after a large change, so that the scale does
    // not jitter.
    const wanted = roundDown(Math.max(least * 0.8, 10));
    if (wanted < this.latencyLeast || wanted > this.latencyLeast * 4) this.latencyLeast = wanted;
    this.latencyLeast = Math.min(this.latencyLeast, this.latencyMost / 10);
  }
}
