// The demo's head: the difference in words and numbers, and the knobs.

import { attributes, button, element, fillList, setShown, setText } from "./dom.js";
import { share, shared } from "./shared.js";
import { TroubleKnobs } from "./trouble.js";
import { troubleText } from "./model.js";
import { clock, count, plural, span } from "./words.js";

/** Two values within this factor count as equal. */
const SAME_WITHIN = 1.1;

/**
 * The difference between two sides at the 99th percentile.
 * @param {{name: string, p99: number | null}} first
 * @param {{name: string, p99: number | null}} second
 * @returns {string} the end of the sentence
 */
export function difference(first, second) {
  if (!first.p99 || !second.p99) return "";
  const [low, high] = first.p99 <= second.p99 ? [first, second] : [second, first];
  const ratio = /** @type {number} */ (high.p99) / /** @type {number} */ (low.p99);
  if (ratio < SAME_WITHIN) return "about the same";
  const times = ratio < 9.95 ? ratio.toFixed(1) : count(ratio);
  return `${times} times lower with ${low.name}`;
}

export class DemoView {
  /** @param {import("./trouble.js").Post} post */
  constructor(post) {
    this.said = element("p", "problem");
    attributes(this.said, { role: "alert" });
    this.post = async (/** @type {string} */ path, /** @type {object} */ body) => {
      const problem = await post(path, body);
      setText(this.said, problem ?? "");
      return problem;
    };
    this.verdict = element("p", "verdict");
    this.overall = element("p", "about");
    this.doubt = element("p", "problem");

    this.rate = element("input");
    attributes(this.rate, { type: "range", id: "load", step: "1" });
    this.rateText = element("output");
    attributes(this.rateText, { for: "load" });
    const rateLabel = element("label", "", "Load");
    attributes(rateLabel, { for: "load" });
    this.rate.addEventListener("input", () => this.sayRate(Number(this.rate.value)));
    this.rate.addEventListener("change", () => this.post("/demo/load", { rate: Number(this.rate.value) }));

    this.target = element("select");
    attributes(this.target, { id: "target" });
    const targetLabel = element("label", "", "Trouble for ", this.target);
    this.target.addEventListener("change", () => share({ chosen: { service: 0, replica: Number(this.target.value) } }));
    this.trouble = new TroubleKnobs(this.post, "knobs");

    this.weather = element("input");
    attributes(this.weather, { type: "checkbox", id: "weather" });
    this.weather.addEventListener("change", () => this.post("/demo/weather", { on: this.weather.checked }));
    const weather = element("label", "check", this.weather, "slow episodes by themselves");
    this.reset = button("Reset", "knob", () => this.post("/demo/reset", {}));
    attributes(this.reset, { id: "reset", title: "Everything as it was at the start" });

    this.calm = element("p", "about calm", "No replica is in trouble now.");
    this.now = element("ul", "troubles");
    attributes(this.now, { "aria-label": "Troubles there are now" });
    const first = element("div", "knob-row", element("span", "range", rateLabel, this.rate, this.rateText), weather, this.reset);
    const second = element("div", "knob-row", targetLabel, this.trouble.root);
    this.knobs = element("section", "card knobs", element("div", "card-head start", element("h2", "", "Make trouble"), element("p", "about", "and see which side notices. Both get the same requests at the same times, and the same troubles at the same replicas.")), first, second, this.calm, this.now, this.said);
    this.root = element("div", "demo", this.verdict, this.overall, this.doubt, this.knobs);
    this.policies = [0, 1].map((side) => this.policyChooser(side));
  }

  /** @param {number} side */
  policyChooser(side) {
    const chooser = element("select", "policy");
    chooser.addEventListener("change", () => this.post("/demo/policy", { side, policy: chooser.value }));
    return { chooser, root: element("label", "", "policy ", chooser) };
  }

  /** @param {number} rate */
  sayRate(rate) {
    setText(this.rateText, `${count(rate)} requests/s to each side`);
  }

  get aimed() {
    return shared.chosen?.replica ?? 0;
  }

  /** @param {import("./model.js").Model} model */
  show(model) {
    const { fleet, tick, services } = model;
    const demo = tick?.demo;
    if (!demo) return;
    this.sayVerdict(demo);
    attributes(this.rate, { min: String(Math.ceil(fleet.demo.rate_min)), max: String(fleet.demo.rate_max) });
    if (document.activeElement !== this.rate) {
      this.rate.value = String(demo.rate);
      this.sayRate(demo.rate);
    }
    this.weather.checked = demo.weather;
    const replicas = services[0].replicas;
    fillList(this.target, replicas, () => element("option"), (option, replica) => {
      setText(option, replica.name);
      option.value = String(replica.index);
    });
    const aimed = replicas[Math.min(this.aimed, replicas.length - 1)];
    if (aimed?.trouble) {
      this.target.value = String(aimed.index);
      this.trouble.show(aimed.index, aimed.name, fleet, aimed.trouble);
    }
    this.policies.forEach(({ chooser }, side) => {
      const policies = fleet.demo.policies;
      fillList(chooser, policies, () => element("option"), (option, policy) => {
        setText(option, policy.name);
        option.value = policy.name;
        attributes(option, { title: policy.about });
      });
      if (document.activeElement !== chooser) chooser.value = services[side].policy;
    });
    const troubled = replicas.filter((replica) => troubleText(replica.trouble));
    setShown(this.calm, !troubled.length);
    setShown(this.now, troubled.length > 0);
    fillList(this.now, troubled, makeTrouble(this), (made, replica) => {
      made.dataset.replica = String(replica.index);
      setText(made.firstElementChild, `▲ ${replica.name}: ${troubleText(replica.trouble)}`);
      const ours = replica.trouble?.fault !== "none" || (replica.trouble?.taken ?? 0) > 0;
      setShown(made.lastElementChild, ours);
      attributes(made.lastElementChild, { "aria-label": `end the trouble of ${replica.name}` });
    });
  }

  /** @param {any} demo */
  sayVerdict(demo) {
    const [first, second] = demo.sides.map((/** @type {any} */ side) => ({ name: side.service, p99: side.recent.p99_us, overall: side.overall.p99_us }));
    const end = difference(first, second);
    const parts = end
      ? [element("b", "first", first.name), ` p99 ${span(first.p99)}, `, element("b", "second", second.name), ` ${span(second.p99)}: `, element("strong", "", `${end}.`)]
      : ["Waiting for the first requests."];
    if (this.verdict.textContent !== parts.map((part) => (typeof part === "string" ? part : part.textContent)).join("")) this.verdict.replaceChildren(...parts);
    const length = demo.length_ms === null ? "" : ` of ${clock(demo.length_ms)}`;
    setText(this.overall, `The slowest 1 % of the requests of the last 10 s took longer than that. ${clock(demo.elapsed_ms)}${length} since the start: ${span(first.overall)} against ${span(second.overall)}.`);
    setText(this.doubt, demo.doubt ? `${demo.doubt[0].toUpperCase()}${demo.doubt.slice(1)}.` : "");
    setShown(this.doubt, Boolean(demo.doubt));
  }
}

/** @param {DemoView} view */
function makeTrouble(view) {
  return () => {
    const end = button("end", "link", () => view.post("/demo/replica", { replica: Number(made.dataset.replica), fault: "none", taken_percent: 0 }));
    const made = element("li", "", element("span"), end);
    return made;
  };
}

/** The text for screen readers. @param {any} demo */
export function spokenDemo(demo) {
  const [first, second] = demo.sides.map((/** @type {any} */ side) => ({ name: side.service, p99: side.recent.p99_us }));
  const troubles = demo.replicas.fault.filter((/** @type {number} */ fault) => fault > 0).length;
  return `${first.name} p99 ${span(first.p99)}, ${second.name} ${span(second.p99)}, ${difference(first, second)}; ${plural(troubles, "replica")} in trouble.`;
}
