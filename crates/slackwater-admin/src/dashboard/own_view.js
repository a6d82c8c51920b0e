// An agent's own state: its load as it answers probes, and the queue before its server.

import { attributes, byId, element, fillList, setShown, setText } from "./dom.js";
import { carries, cost, count, percent, span } from "./words.js";

/** Source of the capacity, as a hint. @type {Record<string, string>} */
const SOURCES = {
  waits: "By how long the server's threads wait for a CPU",
  latency: "By how latency grows with requests in flight",
  cores: "By the cores that the server may use: more they could not carry",
};

/** @param {import("./model.js").Model} model */
export function showOwn(model) {
  const { own_load: load, own_queue: queue } = model.tick;
  setShown(byId("own"), Boolean(load || queue));
  /** @type {[string, string, string][]} */
  const figures = [];
  if (load) {
    figures.push(["answers to probes", load.draining ? "draining" : "takes requests", "What it answers to probes"]);
    figures.push(["in flight", count(load.rif), "Requests in flight, as it reports"], ["latency", span(load.latency_us), "Estimated latency, as it reports"]);
  }
  if (load && load.capacity_millirif !== null) {
    const by = load.capacity_source ?? "";
    figures.push(["server can carry", `${carries(load.capacity_millirif)}${by && `, by ${by}`}`, SOURCES[by] ?? "As it has learned"]);
    figures.push(["full", percent((load.rif * 1000) / load.capacity_millirif), "Requests in flight, of what the server can carry"]);
  }
  if (load && load.cost_us !== null) figures.push(["a request costs", cost(load.cost_us), "CPU time, as it has learned; latency stands for it where the CPU is not known"]);
  if (load && load.cpu_millionths !== null) figures.push(["CPU in use", percent(load.cpu_millionths / 1e6), "Of all that the server may use, over the last 10 s"]);
  if (queue) {
    const { waiting } = queue;
    figures.push(["at the server", `${count(queue.rif)} of ${count(queue.limit)}`, "Requests that its server has, of those that it may have"]);
    figures.push(["waiting", count(waiting.interactive + waiting.batch + waiting.shadow), `Of these interactive ${waiting.interactive}, batch ${waiting.batch}, shadow ${waiting.shadow}`]);
    figures.push(["oldest waits", span(queue.age_us), queue.standing ? "The queue has not been empty for too long" : "For how long the oldest has waited"]);
    const shed = Object.values(queue.shed).reduce((/** @type {number} */ sum, of) => sum + /** @type {number} */ (of), 0);
    figures.push(["refused", count(/** @type {number} */ (shed)), "Requests refused unstarted since the start"]);
  }
  fillList(byId("own-figures"), figures, () => element("div", "", element("dt"), element("dd")), (made, [name, value, hint]) => {
    setText(made.children[0], name);
    setText(made.children[1], value);
    attributes(made, { title: hint });
  });
}
