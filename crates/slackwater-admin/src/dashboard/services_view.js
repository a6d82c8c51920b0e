// An overview of all services, one row each, services with problems first.

import { begin, theme } from "./canvas.js";
import { attributes, button, element, fillList, headRow, setShown, setText, widthOf } from "./dom.js";
import { windowOf } from "./trend.js";
import { count, percent, plural, rate, span } from "./words.js";

/** The most rows. A browser's search does not find further services, so their number is shown. */
const ROWS_MAX = 200;
const SPARK_HEIGHT = 26;

export class ServicesView {
  /** @param {(service: number) => void} open */
  constructor(open) {
    this.open = open;
    this.title = element("h2", "", "Services");
    this.title.id = "services-title";
    this.summary = element("p", "summary");
    this.rows = element("tbody");
    this.table = element("table", "figures-table services", headRow(["service", "problems", "replicas that take requests", "requests/s", "over time", "errors", "p50", "p99", "in flight"]), this.rows);
    const box = element("div", "table-box whole", this.table);
    attributes(box, { tabindex: "0", role: "region", "aria-label": "Services, as a table" });
    this.root = element("section", "card", element("div", "card-head", this.title, this.summary), box);
    attributes(this.root, { "aria-labelledby": "services-title" });
  }

  /** @param {import("./model.js").Model} model @param {import("./problems.js").Problem[]} problems */
  show({ services, tick }, problems) {
    const bad = (/** @type {import("./model.js").Service} */ service) => problems.filter((problem) => problem.service === service.index);
    const worst = (/** @type {import("./model.js").Service} */ service) => bad(service).reduce((sum, problem) => sum + problem.severity, 0);
    const sorted = services.map((service) => ({ service, found: bad(service), weight: worst(service) })).sort((a, b) => b.weight - a.weight || a.service.index - b.service.index);
    const all = services.reduce((sum, service) => sum + (service.tick?.rate ?? 0), 0);
    setText(this.summary, `${plural(services.length, "service")}, ${rate(Math.round(all))} requests/s${services.length > ROWS_MAX ? `; the first ${ROWS_MAX} are shown` : ""}`);
    const make = () => {
      const name = button("", "link", () => this.open(Number(made.dataset.service)));
      const head = element("th", "", name);
      head.scope = "row";
      const spark = element("canvas", "spark");
      attributes(spark, { "aria-hidden": "true" });
      const cells = Array.from({ length: 8 }, () => element("td"));
      cells[3].append(spark);
      const made = element("tr", "", head, ...cells);
      return made;
    };
    fillList(this.rows, sorted.slice(0, ROWS_MAX), make, (made, { service, found, weight }) => {
      made.dataset.service = String(service.index);
      made.classList.toggle("alarming", weight > 0);
      setText(made.cells[0].firstElementChild, service.name);
      const able = service.replicas.filter((replica) => !replica.out).length;
      const [ended, failed] = [service.ended.sent[0] ?? 0, service.ended.failed[0] ?? 0];
      const recent = service.tick?.latency_10s;
      const texts = [
        found.length ? `▲ ${found.length}` : "none", `${count(able)} of ${count(service.replicas.length)}`, rate(service.tick?.rate), null,
        ended ? percent(failed / ended) : "–", span(recent?.p50_us), span(recent?.p99_us), count(service.replicas.reduce((sum, replica) => sum + replica.ours, 0)),
      ];
      texts.forEach((text, i) => text !== null && setText(made.cells[i + 1], text));
      attributes(made.cells[1], { title: found.map((problem) => problem.text).join("\n") || null });
      made.cells[5].classList.toggle("bad", failed > 0);
      paintSpark(made.querySelector("canvas"), service, tick.at_ms);
    });
    setShown(this.root, true);
  }
}

/** Requests per second over the range, and the failed ones in red. @param {HTMLCanvasElement} canvas @param {import("./model.js").Service} service @param {number} now */
function paintSpark(canvas, { series }, now) {
  const width = widthOf(canvas);
  const draw = begin(canvas, width, SPARK_HEIGHT);
  if (!draw) return;
  const colours = theme();
  const windowMs = windowOf({ lines: [{ series, column: "rate", colour: "cold" }], write: String, now });
  const most = Math.max(series.most("rate", windowMs) ?? 0, 1);
  const x = (/** @type {number} */ at) => width - ((now - at) / windowMs) * width;
  for (const [column, colour] of [["rate", colours.cold], ["failures", colours.alarm]]) {
    const values = series.column(column);
    if (column === "failures" && !(series.most(column, windowMs) ?? 0)) continue;
    draw.strokeStyle = colour;
    draw.lineWidth = 1.4;
    draw.beginPath();
    let pen = false;
    series.at.forEach((at, i) => {
      const value = values[i];
      if (value === null || value === undefined || now - at > windowMs) return;
      const y = SPARK_HEIGHT - 2 - (value / most) * (SPARK_HEIGHT - 4);
      if (pen) draw.lineTo(x(at), y);
      else draw.moveTo(x(at), y);
      pen = true;
    });
    draw.stroke();
  }
}
