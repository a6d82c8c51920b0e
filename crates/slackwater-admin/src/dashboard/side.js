// One service on the page: its name, its numbers, its fleet, and the reasons of its picks.

import { attributes, element, fillList, setShown, setText } from "./dom.js";
import { FleetView } from "./fleet_view.js";
import { WhyView } from "./why_view.js";
import { count, percent, policyOf, rate, span } from "./words.js";

export class Side {
  /**
   * @param {string} id
   * @param {(replica: number) => void} open
   */
  constructor(id, open) {
    this.idle = element("p", "idle-hint");
    this.title = element("h2", "side-title");
    this.title.id = id;
    this.about = element("p", "about");
    this.extra = element("div", "side-extra");
    this.figures = element("dl", "figures");
    this.fleet = new FleetView(`${id}-fleet`, open);
    this.why = new WhyView(id, open);
    const head = element("div", "side-head", element("div", "", this.title, this.about), this.extra);
    this.root = element("section", "side", head, this.figures, this.idle, element("div", "side-body", this.fleet.root, this.why.root));
    attributes(this.root, { "aria-labelledby": id });
  }

  /**
   * @param {import("./model.js").Service} service
   * @param {import("./frame.js").Frame} frame
   * @param {any} load the demo's load generator's results, if there are any
   * @param {string} hint a hint while there are no requests
   */
  show(service, frame, load, hint) {
    setText(this.title, service.name);
    const about = policyOf(service.policy).about;
    setText(this.about, load ? about : `${service.policy}: ${about}`);
    if (service.tick) {
      fillList(this.figures, load ? loadFigures(service, load) : figures(service), makeFigure, (made, [name, value, hint, alarm]) => {
        const [term, figure] = made.children;
        setText(term, name);
        setText(figure, value);
        attributes(made, { title: hint });
        made.classList.toggle("bad", Boolean(alarm));
      });
    }
    const isIdle = Boolean(service.tick) && !load && !service.hasTraffic && service.replicas.length > 0;
    setShown(this.idle, isIdle);
    setText(this.idle, isIdle ? hint : "");
    // Without a replica there is nothing to choose, and nothing to explain.
    setShown(this.why.root, !service.tick || service.replicas.length > 0);
    this.fleet.tall = !load;
    this.fleet.show(service, frame);
    this.why.show(service, frame);
  }

  repaint() {
    this.fleet.repaint();
    this.why.repaint();
  }
}

const makeFigure = () => element("div", "", element("dt"), element("dd"));

/** @typedef {[string, string, string, boolean?]} Figure its name, its value, a hint, whether it is alarming */

/** @param {import("./model.js").Service} service @returns {Figure[]} */
function figures(service) {
  const { tick } = service;
  const recent = tick.latency_10s;
  const failed = tick.requests ? tick.failed / tick.requests : null;
  const inFlight = service.replicas.reduce((sum, replica) => sum + replica.ours, 0);
  /** @type {Figure[]} */
  const found = [
    ["requests/s", rate(tick.rate), "Requests that ended in the last interval, per second"],
    ["errors", percent(failed), "Of these, answered with 5xx or not at all", tick.failed > 0],
    ["p50", span(recent?.p50_us), "Half of the requests of the last 10 s took less"],
    ["p99", span(recent?.p99_us), "99 % of the requests of the last 10 s took less"],
    ["p99.9", span(recent?.p999_us), "99.9 % of the requests of the last 10 s took less"],
    ["in flight", count(inFlight), "Requests of this process that are at replicas now"],
  ];
  const able = service.replicas.filter((replica) => !replica.out);
  if (able.length && able.every((replica) => replica.full !== null)) {
    const [rif, capacity] = able.reduce(([rif, capacity], replica) => [rif + replica.rif, capacity + (replica.capacity ?? 0)], [0, 0]);
    found.push(["full", percent(rif / capacity), "In flight, of what the replicas that take requests report they can carry"]);
  }
  const { admission } = tick;
  if (admission.hedges) found.push(["second copies", count(admission.hedges), "Hedges in the last interval; of these won: " + count(admission.hedges_won ?? 0)]);
  if (admission.ties) found.push(["tied", count(admission.ties), "Tied requests in the last interval"]);
  if (admission.retries) found.push(["retries", count(admission.retries), "Further attempts in the last interval"]);
  if (admission.queued) found.push(["queued", count(admission.queued), "Requests that had to wait in the last interval"]);
  const shed = ["shed_queue_full", "shed_wait_over", "shed_deadline", "shed_replicas_full"].reduce((sum, name) => sum + (admission[name] ?? 0), 0);
  if (shed) found.push(["refused", count(shed), "Requests answered with 503 for want of room", true]);
  if (tick.no_replica) found.push(["no replica", count(tick.no_replica), "Requests for which there was no replica", true]);
  return found;
}

/** @param {import("./model.js").Service} service @param {any} load @returns {Figure[]} */
function loadFigures(service, load) {
  const { recent } = load;
  const failed = recent.requests ? recent.errors / recent.requests : null;
  return [
    ["p50", span(recent.p50_us), "Half of the requests of the last 10 s took less, from when they should have been sent"],
    ["p99", span(recent.p99_us), "99 % of the requests of the last 10 s took less"],
    ["p99.9", span(recent.p999_us), "99.9 % of the requests of the last 10 s took less"],
    ["errors", percent(failed), "Of the requests of the last 10 s", recent.errors > 0],
    ["requests/s", rate(service.tick.rate), "Requests that ended in the last interval, per second"],
  ];
}
