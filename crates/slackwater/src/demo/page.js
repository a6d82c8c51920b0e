"use strict";
const EVERY_MS = 500, PATIENCE_MS = 3000, RETRY_MS = 2000, SPEAK_EVERY_MS = 15000, SENT_LATE_MS = 5, MINUTE = 60;
const KINDS = ["first", "second"];
const REASONS = {
  cold: "cold, lowest latency", hot: "all hot, lowest RIF", fallback: "too few reports, random", panic: "none available, random",
  sole_answer: "only answer", random: "random", turn: "its turn", least_loaded: "fewest in flight",
};

const element = (tag, kind, text) => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
};
const byId = (id) => document.getElementById(id);
const count = (n) => n.toLocaleString("en-US");
const ms = (v) => v === null || v === undefined ? "–" : v < 9.95 ? `${v.toFixed(1)} ms` : `${count(Math.round(v))} ms`;
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
const clock = (s) => {
  s = Math.floor(s);
  const h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60, two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
};
const names = (sides) => sides[0].policy === sides[1].policy
  ? [`${sides[0].policy} (1)`, `${sides[1].policy} (2)`] : sides.map((side) => side.policy);

/* One card for each side, made once; `show` fills it. */
function makeSide(kind) {
  const card = element("section", `card side ${kind}`);
  const title = element("h2"), about = element("p", "about");
  const table = element("table", "figures");
  const head = element("thead"), headRow = element("tr");
  for (const text of ["", "last 10 s", "since start"]) {
    const cell = element("th", "", text);
    cell.scope = "col";
    headRow.append(cell);
  }
  head.append(headRow);
  const body = element("tbody"), rows = {};
  for (const [key, name] of [["p50", "p50"], ["p99", "p99"], ["p999", "p99.9"], ["requests", "requests"], ["errors", "errors"]]) {
    const row = element("tr", key), label = element("th", "", name), cells = [element("td"), element("td")];
    label.scope = "row";
    row.append(label, ...cells);
    body.append(row);
    rows[key] = { row, cells };
  }
  table.append(head, body);
  const fleetHead = element("h3"), fleetName = element("b"), scale = element("span");
  fleetHead.append(fleetName, scale);
  const fleet = element("ul", "fleet"), note = element("p", "note");
  card.append(title, about, table, fleetHead, fleet, note);
  byId("sides").append(card);

  const reasoning = element("section", `card side reasoning ${kind}`), again = element("h2");
  const picksHead = element("h3", "", "Why each request went where it went"), probes = element("span");
  picksHead.append(probes);
  const reasons = element("div", "reasons"), words = element("p", "words");
  const poolHead = element("h3", "", "The pool: reports to choose from now"), limit = element("span");
  poolHead.append(limit);
  const pool = element("ul", "pool");
  reasoning.append(again, picksHead, reasons, words, poolHead, pool);
  byId("reasonings").append(reasoning);
  return { titles: [title, again], about, rows, fleet, note, scale, probes, reasons, words, limit, pool, fleetName, tanks: [] };
}

function showFigures(view, side) {
  const recent = side.recent.latency, overall = side.overall.latency;
  for (const key of ["p50", "p99", "p999"]) {
    const of = (q) => q && q[`${key}_ms`];
    view.rows[key].cells[0].textContent = ms(of(recent));
    view.rows[key].cells[1].textContent = ms(of(overall));
  }
  for (const key of ["requests", "errors"]) {
    view.rows[key].cells[0].textContent = count(side.recent[key]);
    view.rows[key].cells[1].textContent = count(side[key]);
  }
  view.rows.errors.row.classList.toggle("bad", side.errors > 0);
}

/* A dot is a request in flight: full rows from the bottom, the last one above them. */
function fill(tank, rif, dot) {
  const across = Math.max(1, Math.floor(tank.box.clientWidth / dot)), rows = Math.floor(rif / across);
  tank.rest.style.cssText = `width:${rif % across * dot}px;height:${dot}px;margin-right:${(across - rif % across) * dot}px`;
  tank.full.style.cssText = `width:${across * dot}px;height:${rows * dot}px`;
}

function showFleet(view, side, replicas) {
  while (view.tanks.length < replicas.length) {
    const item = element("li"), rif = element("span", "rif"), box = element("span", "tank"), rest = element("i"), full = element("i");
    const name = element("span", "name"), cores = element("span", "cores");
    box.append(rest, full);
    item.append(rif, box, name, cores);
    view.fleet.append(item);
    view.tanks.push({ item, rif, box, rest, full, name, cores });
  }
  while (view.tanks.length > replicas.length) view.tanks.pop().item.remove();
  const many = replicas.length > 16;
  view.fleet.classList.toggle("many", many);
  view.fleetName.textContent = `Requests in flight at each replica, a dot each${many ? "" : "; below: its cores"}`;
  const all = side.replicas.reduce((sum, replica) => sum + replica.rif, 0);
  view.scale.textContent = `${count(all)} in all`;
  replicas.forEach((weather, index) => {
    const tank = view.tanks[index], state = side.replicas[index];
    tank.item.classList.toggle("slowed", weather.hobbled);
    tank.rif.textContent = state.rif;
    fill(tank, state.rif, many ? 3 : 5);
    tank.name.textContent = weather.hobbled ? `▲ ${index}` : index;
    tank.cores.textContent = weather.capacity_cores.toFixed(1);
    tank.item.title = `replica ${index}: ${state.rif} in flight (${state.rif_high} at most), `
      + `${weather.capacity_cores.toFixed(2)} cores, ${count(state.served)} served`;
  });
  const slowed = replicas.findIndex((weather) => weather.hobbled);
  view.note.textContent = slowed < 0 ? "" : `▲ replica ${slowed} is slowed to a tenth: ${plural(side.replicas[slowed].rif, "request")} in flight there`;
}

function showBalancer(view, side) {
  const { picks, pool, probes_sent, probes_lost, rif_limit } = side.balancer;
  const all = picks.reduce((sum, pick) => sum + pick.count, 0);
  view.reasons.replaceChildren(...picks.map((pick) => {
    const part = element("i");
    part.style.flex = `${pick.count} 0 0`;
    return part;
  }));
  view.words.replaceChildren(...picks.flatMap((pick, index) => {
    const share = 100 * pick.count / all;
    const number = element("b", "", `${share < 0.95 ? share.toFixed(1) : Math.round(share)} %`);
    return [index ? " · " : "", number, ` ${REASONS[pick.reason] ?? pick.reason}`];
  }));
  view.probes.textContent = probes_sent && all
    ? `${(probes_sent / all).toFixed(1)} probes a request${probes_lost ? `, ${count(probes_lost)} lost` : ""}` : "no probes";
  view.limit.textContent = rif_limit === null ? "" : `hot from RIF ${rif_limit} on`;
  if (!pool.length) {
    view.pool.replaceChildren(element("li", "none", probes_sent ? "none at this moment" : "none: this policy does not look at reports"));
    return;
  }
  view.pool.replaceChildren(...pool.map((report) => {
    const item = element("li", report.hot ? "hot" : "");
    item.append("replica ", element("b", "", report.replica), ` RIF ${report.rif}, ${ms(report.latency_ms)}${report.hot ? ", hot" : ""}`);
    item.title = `${Math.round(report.age_ms)} ms old, ${report.uses_left} uses left`;
    return item;
  }));
}

function showVerdict(picture, sideNames) {
  const p99 = picture.sides.map((side) => side.overall.latency && side.overall.latency.p99_ms);
  if (!p99[0] || !p99[1]) return "";
  const ratio = p99[0] / p99[1];
  const same = ratio >= 0.9 && ratio <= 1.1;
  const parts = [
    element("span", "first", `${sideNames[0]}’s p99`), ` is ${ratio.toFixed(2)} of `,
    element("span", "second", `${sideNames[1]}’s`), `: ${ms(p99[0])} against ${ms(p99[1])}`,
    same ? ", about the same" : ratio > 1 ? ", which is worse" : "",
  ];
  byId("verdict").replaceChildren(...parts);
  return byId("verdict").textContent;
}

/* The chart: a second is a column, latency goes up by powers of ten. */
function drawChart(picture, sideNames) {
  const chart = byId("chart"), width = chart.clientWidth || 600, height = chart.clientHeight || 250;
  const space = { left: 48, right: 16, top: 18, bottom: 22 };
  const seconds = picture.history, last = Math.max(seconds.length ? seconds.at(-1).number : 0, MINUTE - 1);
  const values = seconds.flatMap((s) => s.sides.filter(Boolean).flatMap((q) => [q.p50_ms, q.p99_ms]));
  const low = Math.min(...values, 10) < 10 ? 1 : 10, high = Math.max(...values, 1000) > 1000 ? 10000 : 1000;
  const x = (number) => space.left + (number - last + MINUTE - 1) / (MINUTE - 1) * (width - space.left - space.right);
  const y = (v) => {
    const share = Math.log(Math.min(high, Math.max(low, v)) / low) / Math.log(high / low);
    return height - space.bottom - share * (height - space.top - space.bottom);
  };
  const svg = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const parts = [];
  const column = x(1) - x(0);
  seconds.forEach((second, index) => {
    if (second.hobbled === null) return;
    const from = Math.max(space.left, x(second.number) - column / 2);
    parts.push(svg("rect", { class: "band", x: from, y: space.top - 14, width: x(second.number) + column / 2 - from, height: height - space.top - space.bottom + 14 }));
    if (seconds[index - 1]?.hobbled !== second.hobbled && from < width - 30) {
      parts.push(svg("text", { class: "bandname", x: from + 3, y: space.top - 4 }, `▲ ${second.hobbled}`));
    }
  });
  for (let tick = low; tick <= high; tick *= 10) {
    parts.push(svg("line", { class: "grid", x1: space.left, x2: width - space.right, y1: y(tick), y2: y(tick) }));
    parts.push(svg("text", { x: space.left - 6, y: y(tick) + 4, "text-anchor": "end" }, tick < 1000 ? `${tick} ms` : `${tick / 1000} s`));
  }
  for (let at = Math.ceil((last - MINUTE + 1) / 15) * 15; at <= last; at += 15) {
    parts.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: height - space.bottom, y2: height - space.bottom + 4 }));
    parts.push(svg("text", { x: x(at), y: height - 3, "text-anchor": "middle" }, clock(at)));
  }
  KINDS.forEach((kind, index) => {
    for (const [key, extra] of [["p50_ms", " median"], ["p99_ms", ""]]) {
      let path = "", broken = true;
      for (const second of seconds) {
        const q = second.sides[index];
        if (q) path += `${broken ? "M" : "L"}${x(second.number).toFixed(1)} ${y(q[key]).toFixed(1)}`;
        broken = !q;
      }
      if (path) parts.push(svg("path", { class: kind + extra, d: path }));
    }
  });
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.replaceChildren(...parts);
  const newest = seconds.at(-1);
  chart.setAttribute("aria-label", newest
    ? `p99 of the last whole second: ${sideNames.map((name, index) => `${name} ${ms(newest.sides[index]?.p99_ms)}`).join(", ")}` : "nothing measured yet");
}

function showLegend(sideNames) {
  const legend = byId("legend");
  const text = sideNames.join();
  if (legend.dataset.names === text) return;
  legend.dataset.names = text;
  const entries = [["key", sideNames[0]], ["key second", sideNames[1]], ["key thick", "p99"], ["key thin", "p50"],
    ["key band", "▲ with its number: a replica is slowed to a tenth"]];
  legend.replaceChildren(...entries.map(([kind, text]) => {
    const item = element("li");
    item.append(element("span", kind), text);
    return item;
  }));
}

const views = KINDS.map(makeSide);
let spokenAt = 0;

function show(picture) {
  const sideNames = names(picture.sides);
  byId("setup").textContent = `${picture.replicas.length} replicas a side · ${count(picture.rate)} requests/s to each · seed ${picture.seed}`;
  const elapsed = clock(picture.elapsed_seconds);
  const length = picture.length_seconds === null ? "" : ` of ${clock(picture.length_seconds)}`;
  byId("state").replaceChildren("● ", element("b", "", picture.phase === "running" ? "live" : "ending"), ` ${elapsed}${length}`);
  picture.sides.forEach((side, index) => {
    const view = views[index];
    for (const title of view.titles) title.textContent = sideNames[index];
    view.about.textContent = side.about;
    showFigures(view, side);
    showFleet(view, side, picture.replicas);
    showBalancer(view, side);
  });
  const verdict = showVerdict(picture, sideNames);
  byId("doubt").textContent = picture.sent_late_p99_ms > SENT_LATE_MS
    ? `This computer is too busy: 1 % of the requests leave over ${ms(picture.sent_late_p99_ms)} late, so take the figures with caution.` : "";
  showLegend(sideNames);
  drawChart(picture, sideNames);
  document.title = `${elapsed} Slackwater demo`;
  if (verdict && Date.now() - spokenAt > SPEAK_EVERY_MS) {
    spokenAt = Date.now();
    byId("spoken").textContent = verdict;
  }
}

async function follow() {
  let wait = EVERY_MS;
  try {
    const answer = await fetch("/demo/status.json", { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    show(await answer.json());
  } catch {
    wait = RETRY_MS;
    byId("state").replaceChildren("○ ", element("b", "", "no answer"), ": the demo has ended; below is what was last seen");
  }
  setTimeout(follow, document.hidden ? RETRY_MS : wait);
}
follow();
