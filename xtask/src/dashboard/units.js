// Unit tests of the page's modules, run in the page. Returns a list of failures.
(async () => {
  const failures = [];
  const same = (what, found, expected) => {
    const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
    if (a !== b) failures.push(`${what}: ${a}, expected ${b}`);
  };
  const from = (name) => import(`/dashboard/${name}.js`);

  const scales = await from("scales");
  same("rootScale", [0, 25, 100, 400].map(scales.rootScale(100, 10)), [0, 5, 10, 10]);
  same("logScale", [1, 10, 100, 5000].map((v) => Math.round(scales.logScale(1, 1000, 30)(v))), [0, 10, 20, 30]);
  same("roundUp", [0, 0.011, 1, 1.01, 20, 21, 501].map(scales.roundUp), [1, 0.02, 1, 2, 20, 50, 1000]);
  same("roundDown", [1, 1.99, 5, 49, 999].map(scales.roundDown), [1, 1, 5, 20, 500]);
  same("rootMarks", scales.rootMarks(100, 100, 20), [0, 5, 20, 50, 100]);
  same("logMarks", scales.logMarks(1000, 100_000, 40, 15), [1000, 10_000, 100_000]);
  same("logMarks with room", scales.logMarks(2000, 20_000, 100, 15), [2000, 5000, 10_000, 20_000]);
  same("logMarks without", scales.logMarks(1, 1e6, 60, 15), [1, 100, 10_000, 1e6]);
  same("linearMarks", [scales.linearMarks(800), scales.linearMarks(0.01)].map((m) => m.map((v) => +v.toFixed(3))), [[0, 500], [0, 0.005, 0.01]]);
  const calm = new scales.CalmMost(10);
  same("CalmMost up at once", [3, 70, 12].map((v) => calm.follow(v)), [10, 100, 100]);
  for (let i = 0; i < 18; i++) calm.follow(12);
  same("CalmMost down late", [calm.follow(12), calm.follow(12)], [20, 20]);

  const words = await from("words");
  same("span", [null, 40, 9_940, 9_960, 1_310_200, 12_300_000, 200_000_000].map(words.span), ["–", "0.0 ms", "9.9 ms", "10 ms", "1,310 ms", "12.3 s", "200 s"]);
  same("percent", [null, 0, 0.0001, 0.004, 0.12, 1].map(words.percent), ["–", "0 %", "< 0.1 %", "0.4 %", "12 %", "100 %"]);
  same("carries", [null, 0, 4_500, 99_940, 120_400].map(words.carries), ["–", "0.0", "4.5", "99.9", "120"]);
  same("cost", [null, 85, 999, 2_100].map(words.cost), ["–", "85 µs", "999 µs", "2.1 ms"]);
  same("rate", [null, 12.5, 400, 2000.4].map(words.rate), ["–", "12.5", "400", "2,000"]);
  same("shortCount", [0, 0.5, 2000, 20_000, 1.5e6].map(words.shortCount), ["0", "0.5", "2,000", "20k", "1.5M"]);
  same("clock", [0, 83_000, 3_723_000, 180_000_000].map(words.clock), ["0:00", "1:23", "1:02:03", "2 d 2 h"]);
  same("plural", [words.plural(1, "replica"), words.plural(2, "replica")], ["1 replica", "2 replicas"]);
  same("shortNames", words.shortNames(["10.0.0.1:80", "10.0.0.12:80"]), ["1", "12"]);
  same("shortNames of numbers", words.shortNames(["replica 10", "replica 11"]), ["10", "11"]);
  same("shortNames of ports", words.shortNames(["127.0.0.1:4001", "127.0.0.1:4002"]), ["4001", "4002"]);
  same("shortNames of one", words.shortNames(["only"]), ["only"]);
  same("an unknown state", words.stateOf("half_asleep").text, "half asleep");

  const of = (name, more) => ({ name, about: `${name}.`, reports: "pool", carried: "nothing", comparison: "", score: "score", ...more });
  words.learnPolicies([
    of("pooling"), of("latest", { reports: "latest", comparison: "delay", score: "expected delay" }),
    of("carrying", { carried: "capacity" }), of("asking", { reports: "round" }),
  ]);
  same("the description of a policy", [words.policyOf("latest").score, words.policyOf("of_tomorrow"), words.policyOf("none").about], ["expected delay", of("of_tomorrow", { about: "", reports: "none" }), "There is nothing to choose."]);
  same("who keeps reports", ["pooling", "latest", "asking", "of_tomorrow"].map(words.isPooled), [true, true, false, false]);

  const delay = {
    name: "delay", formula: "delay = in flight × latency", equals: "draw", order: [{ by: "delay_us", best: "lowest" }], shared: [{ key: "limit", name: "limit", unit: "requests" }],
    factors: [{ key: "in_flight", name: "requests in flight", unit: "requests" }, { key: "delay_us", name: "expected delay", unit: "microseconds" }, { key: "hot", name: "hot", unit: "flag" }],
  };
  words.learnComparisons([delay]);
  same("a comparison by its name", [words.comparisonOf("delay")?.name, words.comparisonOf("of_tomorrow"), words.comparisonOf(undefined)], ["delay", null, null]);
  same("the formula with what all have in common", [words.formulaText(delay, { limit: 5 }), words.formulaText(delay)], ["delay = in flight × latency; limit 5", "delay = in flight × latency; limit –"]);
  same("figures with their units", delay.factors.map((factor) => [1.256, 0, undefined].map((value) => words.figure(factor, value))), [["1.26", "0", "–"], ["1 µs", "0 µs", "–"], ["yes", "no", "–"]]);
  same("times", [250, 1_642, 250_000].map((us) => words.figure(delay.factors[1], us)), ["250 µs", "1.64 ms", "250 ms"]);

  const rule = await from("rule");
  const report = (replica, rif, latency_us, hot, rank = null) => ({ worker: 0, replica, rif, latency_us, age_ms: replica, uses_left: 1, hot, local: false, rank, factors: rank === null ? {} : { in_flight: rif, latency_us } });
  const pool = [report(4, 1, 20, false, 0), report(2, 2, 20, false, 1), report(3, 8, 5, true, 2)];
  same("next", rule.nextPick(pool).replica, 4);
  same("none where reports decide nothing", [rule.nextPick([report(4, 1, 20, false)]), rule.nextPick([])], [null, null]);
  same("who decides without reports", [["pooling", 0], ["pooling", 1], ["pooling", 2], ["latest", 1], ["latest", 0]].map(([policy, reports]) => rule.withoutReports(policy, reports).split(": ")[1] ?? ""), ["chance decides.", "chance decides until there are two.", "", "", "the fewest of this worker's own requests in flight decide."]);
  const median = [5, 6, 7].map((rif) => report(rif, rif, 1, rif >= 6));
  same("the limit of a worker", [rule.limitOf(median, 6), rule.limitOf(median, 9), rule.limitOf(median, 2), rule.limitOf([], 4), rule.limitOf(median, null)], [6, 6, 6, 4, null]);

  const equal = [report(2, 4, 6, false, 0), report(1, 4, 6, false, 1), report(0, 1, 9, false, 2)];
  same("where chance draws among equals none is next", [rule.nextPick(equal), rule.equalsOf(equal).map((one) => one.replica)], [null, [2, 1]]);
  same("the only one that is the best", rule.nextPick(equal.slice(1)).replica, 1);
  same("of equals the one that the policy picks", rule.nextPick(equal.map((one) => ({ ...one, next: one.replica === 2 }))).replica, 2);
  same("what a worker measures itself is no report", [rule.isMeasuredHere(equal), rule.isMeasuredHere(equal.map((one) => ({ ...one, local: true }))), rule.isMeasuredHere([])], [false, true, false]);
  same("a reason as its policy has it", [words.reasonName("lowest_score", "latest"), words.reasonName("lowest_score", "pooling"), words.reasonText("lowest_score", "latest"), words.reasonName("cold", "pooling")], ["lowest expected delay", "lowest score", "it had the lowest expected delay among the reports", "cold, lowest latency"]);

  const { Series } = await from("series");
  const series = new Series(3);
  series.push(1, { a: 1 });
  series.push(2, { a: 5, b: 2 });
  series.push(2, { a: 9 });
  series.push(3, { b: 3 });
  series.push(4, { a: 2, b: 4 });
  same("series are bounded, and know what they don't", [series.at, series.column("a"), series.column("b"), series.most("a"), series.last("b")], [[2, 3, 4], [5, null, 2], [2, 3, 4], 5, 4]);
  same("the most of the newest time", [series.most("a", 1), series.most("a", 2)], [2, 5]);

  const { Model, grouped } = await from("model");
  same("grouped counts", grouped({ sent: 3, skipped_cap: 1, skipped_interval: 4 }), { sent: 3, skipped: 5 });
  same("grouped columns", grouped({ skipped_cap: [1, 2], skipped_interval: [3, 4] }), { skipped: [4, 6] });
  const told = (name) => ({ name, address: `${name}:80`, tier: 0, weight: 100 });
  const fleet = { revision: 1, role: "serve", version: "1", process: 1, interval_ms: 1000, states: ["available", "down"], replica_states: [{ name: "available", meaning: "It takes its share.", sign: "", takes_requests: true }, { name: "down", meaning: "Its health checks failed.", sign: "✕", takes_requests: false }], services: [{ name: "web", policy: "pooling", replicas: [told("a"), told("b")] }], demo: null };
  const columns = { state: [0, 1], rif: [3, null], latency_us: [5, null], report_age_ms: [1, null], hot: [1, null], in_flight: [4, 2], sent: [6, 2], failed: [0, 1], p50_us: [7, 8], p99_us: [9, 9], share: [1000, 500] };
  const tick = (at_ms, revision = 1) => ({ revision, at_ms, interval_ms: 500, demo: null, services: [{ requests: 8, failed: 2, rate: 16, latency: null, picks: { cold: 8 }, probes: {}, admission: {}, rif_limit: { min: 2, median: 3, max: 3 }, pool: [{ worker: 1 }, { worker: 0 }], replicas: columns }] });
  const model = new Model();
  same("no tick before the fleet", model.handleTick(tick(1)), false);
  same("the first fleet is another one", model.handleFleet(fleet), true);
  same("a tick of another revision", model.handleTick(tick(1, 2)), false);
  same("a tick", model.handleTick(tick(1000)), true);
  const [web] = model.services;
  same("replicas: what they reported; ours only where they never did", web.replicas.map((r) => [r.rif, r.ours, r.latency, r.hot, r.state, r.share, r.allowed, r.reported]), [[3, 4, 5, true, "available", 0.75, 1, true], [2, 2, 8, null, "down", 0.25, 0.5, false]]);
  same("values that are not reported are unknown", web.replicas.map((r) => [r.capacity, r.cost, r.full]), [[null, null, null], [null, null, null]]);
  const carrying = { ...columns, capacity_millirif: [2000, 9000], cost_us: [700, null] };
  model.handleTick({ ...tick(1000), services: [{ ...tick(1000).services[0], replicas: carrying }] });
  same("how full: by reports alone", web.replicas.map((r) => [r.capacity, r.cost, r.full]), [[2, 700, 1.5], [9, null, null]]);
  const { arranged } = await from("arrange");
  same("the fullest first, the unknown last", [arranged(web.replicas, "full", ""), arranged(web.replicas.slice().reverse(), "full", "")].map((all) => all.map((r) => r.name)), [["a", "b"], ["a", "b"]]);
  const { downRows, keysOf: keys, replicaText } = await from("fleet_view");
  same("ages by the process's clock", downRows({ at: 60_000, since: 1_000, checked: 57_000 }), [["since", `${words.moment(1_000, 60_000)}, 59 s`], ["last check", "3 s ago"]]);
  same("the moment of a tick", web.replicas.map((r) => r.at), [1000, 1000]);
  same("the key of what it can carry", [keys(web, false), keys(web, true)].map((all) => all.some(([, , text]) => text === "what it can carry")), [true, false]);
  same("one replica in words", replicaText(web.replicas[0], 3).includes("can carry 2.0: 150 % full · 4 in flight from here · latency 0.0 ms · a request costs 700 µs"), true);
  same("limit and workers", [web.limit, web.workers], [3, [0, 1]]);
  same("errors", web.series.last("errors"), 0.25);
  same("counts by the second", web.series.last("picks.cold"), 16);
  same("the same process with another policy keeps its past", [model.handleFleet({ ...fleet, revision: 2, services: [{ ...fleet.services[0], policy: "asking" }] }), model.services[0].series.length], [false, 1]);
  same("another process has none", [model.handleFleet({ ...fleet, process: 2 }), model.services[0].series.length], [true, 0]);

  model.handleTick({ ...tick(1500), services: [{ ...tick(1500).services[0], picks: {} }] });
  same("what did not occur is 0", model.services[0].series.last("picks.cold"), null);
  model.handleTick(tick(1600));
  model.handleTick({ ...tick(1700), services: [{ ...tick(1700).services[0], picks: {}, rif_limit: null }] });
  same("what does not occur any more is 0", model.services[0].series.last("picks.cold"), 0);
  same("without a limit no replica is hot or cold", model.services[0].replicas.map((r) => r.hot), [null, null]);

  const past = { interval_ms: 1000, at_ms: [500, 1000, 1200], requests: [4, 4, 4], failed: [0, 0, 0], picks: { cold: [3, 3, 3] }, probes: {} };
  for (const name of ["rate", "p50_us", "p99_us", "p999_us", "rif_limit", "hedges", "retries", "shed", "queued"]) past[name] = [1, 2, 3];
  model.handleHistory(model.services[0], past);
  same("the past fills what is not known, before and between", [model.services[0].series.at, model.services[0].series.column("rate")], [[500, 1000, 1200, 1500, 1600, 1700], [1, 2, 3, 16, 16, 16]]);
  model.handleTick({ ...tick(1800), uptime_ms: 9 });
  model.handleTick({ ...tick(1900), uptime_ms: 8 });
  same("a restarted process with the same number has no history", [model.services[0].series.at, model.services[0].hasHistory], [[1900], false]);

  model.handleTick({ ...tick(700), uptime_ms: 10 });
  model.handleTick({ ...tick(1800), uptime_ms: 11 });
  same("a clock that was set back begins the history anew", [model.services[0].series.at, model.services[0].hasHistory], [[700, 1800], false]);

  const { Recent } = await from("recent");
  const recent = new Recent();
  [[9, 0], [1, 1], [2, 0], [0, 3]].forEach((sent, at) => recent.push(at, 2500, sent, [0, 1]));
  recent.push(3, 2500, [7, 7], [7, 7]);
  same("the last seconds, no more than cover them, each moment once", [recent.sent, recent.failed, recent.seconds], [[2, 3], [0, 2], 5]);
  recent.push(4, 2500, [1, 2, 3], [0, 0, 0]);
  same("another fleet starts with empty data", [recent.sent, recent.seconds], [[1, 2, 3], 2.5]);

  const { Stream } = await from("stream");
  const { EventSource: source } = window;
  window.EventSource = class extends EventTarget {
    close() {}
  };
  const calls = [];
  const stream = new Stream("/events", { fleet() {}, tick: (told) => calls.push(told.phase), link: (link) => calls.push(link) });
  window.EventSource = source;
  ["serving", "draining"].forEach((phase, at_ms) => stream.source.dispatchEvent(new MessageEvent("tick", { data: JSON.stringify({ at_ms, phase }) })));
  stream.close();
  same("the state of the connection follows each tick, which has the phase", calls, ["serving", "live", "draining", "live"]);

  const { ReplicaView } = await from("replica_view");
  const sheet = new ReplicaView(async () => null, () => {}, { root: document.createElement("div"), follow() {}, stop() {} });
  for (const at of [1910, 1950]) {
    model.handleTick(tick(at));
    if (at === 1910) await sheet.open(model.services[0], 1, false);
    sheet.show(model, model.services[0], 1);
  }
  same("failures of one replica by the second", sheet.series.column("failed"), [2, 2]);
  model.handleTick(tick(1900));
  sheet.show(model, model.services[0], 1);
  same("the sheet, too, begins anew with the clock", sheet.series.at, [1900]);

  const arrange = await from("arrange");
  model.handleTick(tick(2000));
  const { replicas } = model.services[0];
  const names = (list) => list.map((r) => r.name);
  same("by state", names(arrange.arranged(replicas, "state", "")), ["b", "a"]);
  same("by requests in flight", names(arrange.arranged(replicas, "rif", "")), ["a", "b"]);
  const named = (name, index) => ({ ...replicas[0], name, index });
  same("by name, numbers as numbers", names(arrange.arranged([named("r10", 0), named("r9", 1), named("a", 2)], "name", "")), ["a", "r9", "r10"]);
  same("as configured", names(arrange.arranged([named("r10", 0), named("r9", 1)], "given", "")), ["r10", "r9"]);
  same("filter by heat", names(arrange.arranged(replicas, "name", "hot")), ["a"]);
  same("filter by state", names(arrange.arranged(replicas, "name", "down B")), ["b"]);

  const { tell } = await from("story");
  const known = { replica: "a", chosen: true, rif: 3, in_flight: 1, latency_us: 5_000, age_us: 10, hot: false, capacity_millirif: 4_500, in_use: 0.667, cost_us: 2_100, factors: { in_flight: 3, delay_us: 2_500, hot: 0 } };
  const story = (reason, policy, runner_up) => {
    const attempt = { kind: "first", replica: "a", sent_us: 1, answered: true, reason, reports: 1, comparison: "delay", shared: { limit: 5 }, candidates: [known], runner_up };
    const nodes = tell({ method: "GET", path: "/", status: 200, total_us: 9, service: "web", policy, attempts: [attempt] }, document.createElement("button"));
    return nodes.map((node) => node.textContent).join(" ");
  };
  same("what a candidate can carry, how full it is, what one costs", ["can carry", "4.5", "67 %", "2.1 ms"].filter((text) => !story("lowest_score", "carrying").includes(text)), []);

  const compared = story("lowest_score", "latest");
  same("what was compared, with its formula", ["It had the lowest expected delay among the reports.", "Delay = in flight × latency; limit 5.", "expected delay", "2.50 ms"].filter((text) => !compared.includes(text)), []);

  const { difference } = await from("demo_view");
  const side = (name, p99) => ({ name, p99 });
  same("difference", [difference(side("a", 1000), side("b", 20_000)), difference(side("a", 3000), side("b", 2000)), difference(side("a", 1000), side("b", 1050)), difference(side("a", null), side("b", 1))], ["20 times lower with a", "1.5 times lower with b", "about the same", ""]);

  const columnsPicture = await from("columns");
  const layout = columnsPicture.layout(646, 10, false);
  same("a point on columns", [layout.placeAt(46), layout.placeAt(40), layout.placeAt(645), layout.placeAt(700)], [0, null, 9, null]);
  const cells = (await from("cells")).layout(500, 1000, true);
  same("a point on cells", [cells.placeAt(1, cells.top + 1), cells.placeAt(1, cells.top + cells.pitch + 1) === cells.perRow, cells.placeAt(1, 1)], [0, true, null]);
  const boxes = Array.from({ length: 1000 }, (_, place) => cells.boxOf(place));
  same("cells are found where they are drawn", boxes.findIndex(([x, y, wide, high], place) => cells.placeAt(x + wide / 2, y + high / 2) !== place), -1);
  same("cells are in the picture", boxes.some(([x, y, wide, high]) => x + wide > 500 || y + high > cells.height), false);
  const { keysOf } = await from("fleet_view");
  const looks = (limit, hot, more = {}) => keysOf({ limit, replicas: [{ reported: hot !== null, hot, state: "available", out: false, alarming: false, failures: 0, capacity: null, trouble: null, ...more }] }, false).map(([, , text]) => text);
  same("the picture's key", [looks(3, true).slice(0, 2), looks(null, null).slice(0, 2), looks(3, false, { out: true }).includes("takes no requests"), looks(3, false).includes("takes no requests"), looks(3, false, { failures: 1 }).includes("failed")], [["cold", "hot"], ["takes requests", "median seen here"], true, false, true]);
  const { windowOf, momentAt } = await from("trend");
  const drawn = new Series(9);
  drawn.push(1_000_000, { a: 1 });
  same("as much time as there are figures of", [30, 60, 90, 150, 400].map((s) => windowOf({ lines: [{ series: drawn, column: "a" }], now: 1_000_000 + 1000 * s })), [60_000, 60_000, 120_000, 300_000, 300_000]);
  const moment = (x) => momentAt({ lines: [{ series: drawn, column: "a" }], now: 1_000_000 }, 650, x);
  same("the sample that is pointed at", [moment(646), moment(20), moment(300)], [{ at: 1_000_000, back: 0 }, null, null]);
  same("the value of a moment", [drawn.valueAt("a", 1_000_000), drawn.valueAt("a", 5), drawn.valueAt("b", 1_000_000)], [1, null, null]);
  same("how long ago", [0, 59_400, 61_000, 7_300_000, 200_000_000].map(words.ago), ["0 s", "59 s", "1 min", "2 h", "2 d"]);
  const noon = new Date(2026, 0, 2, 12, 0, 5).getTime();
  same("a moment", [words.moment(noon, noon + 1000), words.moment(noon, noon + 86_400_000)], ["12:00:05", "2026-01-02 12:00:05"]);

  const { Frame, ghostOf } = await from("frame");
  const scaled = { ...model.services[0], name: "web", limit: null, tick: null, replicas: [{ ...replicas[0], rif: 30, rate: 7, latency: 2_000, p99: 90_000, capacity: null }] };
  const frame = new Frame();
  frame.follow(scaled);
  same("each side has its own scale", [frame.rifMost, frame.rateMost, frame.latencyMost], [50, 10, 100_000]);
  same("what the other side has at most", ghostOf(scaled), { name: "web", rif: 30, latency: 90_000 });

  const { problemsOf } = await from("problems");
  const time = words.moment(1_000, 60_000);
  const troubled = { name: "web", index: 3, told: { replicas: [{ name: "a" }, { name: "b" }] } };
  const found = (...problems) => problemsOf({ isDemo: false, tick: problems.length ? { problems } : {}, services: [troubled] }, 60_000);
  const down = { kind: "replicas_failing", severe: false, service: "web", replica: "b", what: "1 of 2 replicas down: b: refused", since_ms: 1_000, remedy: "start it" };
  same("no problems", [found(), problemsOf({ isDemo: true, tick: { problems: [down] }, services: [troubled] }, 60_000)], [[], []]);
  same("a replica is down: since when, why, what to do, where", found(down).map(({ page, ...it }) => it), [{ severity: 1, text: `web: 1 of 2 replicas down: b: refused, since ${time} (59 s).`, remedy: "Start it.", service: 3, replica: 1 }]);
  const gone = found({ ...down, service: "gone" }, { ...down, replica: null, severe: true, since_ms: null });
  same("a service that has left, no replica", gone.map((it) => [it.severity, it.service, it.replica]), [[1, undefined, undefined], [2, 3, undefined]]);
  same("a certificate", found({ kind: "certificate", severe: true, service: null, replica: null, what: "the certificate has expired", since_ms: null, remedy: "" }).map((it) => [it.text, it.remedy, it.page]), [["the certificate has expired.", "", "configuration"]]);
  return failures;
})()
