// What an agent says of itself: its own load, which it tells to probes, and the queue before its server.

import { attributes, byId, element, fillList, setShown, setText } from "./dom.js";
import { count, span } from "./words.js";

/** @param {import("./model.js").Model} model */
export function showOwn(model) {
  const { own_load: load, own_queue: queue } = model.tick;
  setShown(byId("own"), Boolean(load || queue));
  /** @type {[string, string, string][]} */
  const figures = [];
  if (load) {
    figures.push(["answers to probes", load.draining ? "draining" : "takes requests", "What it tells to those who ask"]);
    figures.push(["in flight", count(load.rif), "Requests in flight, as it tells"], ["latency", span(load.latency_us), "As it tells: estimated latency"]);
  }
  if (queue) {
    const { waiting } = queue;
    figures.push(["at the server", `${count(queue.rif)} of ${count(queue.limit)}`, "Requests that its server has, of those that it may have"]);
    figures.push(["waiting", count(waiting.interactive + waiting.batch + waiting.shadow), `Of these interactive ${waiting.interactive}, batch ${waiting.batch}, shadow ${waiting.shadow}`]);
    figures.push(["oldest waits", span(queue.age_us), queue.standing ? "The line has stood for too long" : "For how long the oldest has waited"]);
    const shed = Object.values(queue.shed).reduce((/** @type {number} */ sum, of) => sum + /** @type {number} */ (of), 0);
    figures.push(["turned away", count(/** @type {number} */ (shed)), "Requests turned away unstarted since the start"]);
  }
  fillList(byId("own-figures"), figures, () => element("div", "", element("dt"), element("dd")), (made, [name, value, hint]) => {
    setText(made.children[0], name);
    setText(made.children[1], value);
    attributes(made, { title: hint });
  });
}
