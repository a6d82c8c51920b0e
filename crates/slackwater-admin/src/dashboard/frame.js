// The scales that all pictures of a page share, so that two sides can be compared: they follow up
// at once, and down slowly.

import { CalmMost, roundDown } from "./scales.js";

/** Of what replicas can carry no more is shown than so many times the most that is in flight. */
const ROOM_RATIO_MAX = 4;
/** Between the ends of the latency scale there is so much at least. */
const LATENCY_RATIO_MIN = 20;

export class Frame {
  constructor() {
    this.calmRif = new CalmMost(5);
    this.calmShare = new CalmMost(0.01);
    this.calmLatency = new CalmMost(1_000);
    this.rifMost = 5;
    this.shareMost = 0.01;
    /** @type {number | null} the highest limit of those that have one */
    this.limit = null;
    this.latencyLeast = 1_000;
    this.latencyMost = 100_000;
  }

  /** @param {import("./model.js").Service[]} services those that are shown */
  follow(services) {
    let [rif, capacity, share, most, least] = [0, 0, 0, 0, Infinity];
    this.limit = services.reduce((/** @type {number | null} */ limit, service) => (service.limit === null ? limit : Math.max(limit ?? 0, service.limit)), null);
    for (const service of services) {
      rif = Math.max(rif, (service.limit ?? 0) * 1.4);
      for (const replica of service.replicas) {
        rif = Math.max(rif, replica.rif, replica.ours);
        capacity = Math.max(capacity, replica.capacity ?? 0);
        share = Math.max(share, replica.share);
        most = Math.max(most, replica.latency ?? 0, replica.p99 ?? 0);
        if (replica.latency) least = Math.min(least, replica.latency);
      }
      for (const report of service.tick?.pool ?? []) {
        rif = Math.max(rif, report.rif);
        most = Math.max(most, report.latency_us ?? 0);
        if (report.latency_us) least = Math.min(least, report.latency_us);
      }
    }
    this.rifMost = this.calmRif.follow(Math.max(rif, Math.min(capacity, rif * ROOM_RATIO_MAX)));
    this.shareMost = this.calmShare.follow(share);
    if (least === Infinity) return;
    this.latencyMost = this.calmLatency.follow(Math.max(most, least * LATENCY_RATIO_MIN));
    // Down at once, up only with the other end: so that it does not breathe, either.
    const wanted = roundDown(Math.max(least * 0.8, 10));
    if (wanted < this.latencyLeast || wanted > this.latencyLeast * 4) this.latencyLeast = wanted;
    this.latencyLeast = Math.min(this.latencyLeast, this.latencyMost / 10);
  }
}
