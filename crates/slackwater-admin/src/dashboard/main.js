// The page: one stream of messages, one model, and the views that show it.

import { ORDERS } from "./arrange.js";
import { forgetTheme } from "./canvas.js";
import { ConfigurationView } from "./configuration_view.js";
import { DecisionsView, setDecisions } from "./decisions_view.js";
import { DemoView, spokenDemo } from "./demo_view.js";
import { attributes, byId, element, fetchJson, fillList, onWidth, setShown, setText } from "./dom.js";
import { Frame, ghostOf } from "./frame.js";
import { Model } from "./model.js";
import { showOwn } from "./own_view.js";
import { ProblemsView, problemsOf } from "./problems.js";
import { ReplicaView } from "./replica_view.js";
import { ServicesView } from "./services_view.js";
import { onShared, share, shared } from "./shared.js";
import { Side } from "./side.js";
import { Stream } from "./stream.js";
import { DemoTrends, Ranges, ServiceTrends } from "./trends_view.js";
import { ago, count, percent, plural, rate, span } from "./words.js";

const SPEAK_EVERY_MS = 20_000;
const HISTORY_EVERY_MS = 5_000;
const THEMES = ["system", "light", "dark"];

const VIEWS = ["services", "fleet", "configuration"];
/** The most services whose history is requested at once. */
const HISTORIES_MAX = 50;

const model = new Model();
/** The scales of each side. */
const frames = [new Frame(), new Frame()];
const ranges = new Ranges();
const problems = new ProblemsView(showProblem);
const services = new ServicesView(openService);
const configuration = new ConfigurationView();
const demo = new DemoView(post);
const decisions = new DecisionsView("decisions-title", "Requests whose decisions were kept", byId("story"));
const replica = new ReplicaView(post, closeReplica, new DecisionsView("replica-decisions", "Its last decisions that were kept", byId("story")));
/** @type {Side[]} */
let sides = [];
/** @type {ServiceTrends | DemoTrends | null} */
let trends = null;
let historyAskedAt = 0;
let spokenAt = 0;
let spokenProblems = 0;
/** @type {import("./stream.js").Link} */
let spokenLink = "connecting";
let asked = false;
/** The page that is shown. */
let view = "fleet";

byId("problems").append(problems.root);
byId("view-services").append(services.root);
byId("view-configuration").append(configuration.root);
byId("trends").firstElementChild.append(ranges.root);
byId("sheet").append(replica.root);
byId("demo").append(demo.root);
byId("decisions").append(decisions.root);

/**
 * Sends a change.
 * @param {string} path
 * @param {object} body
 * @returns {Promise<string | null>} what was wrong
 */
async function post(path, body) {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    return answer.ok ? null : (await answer.text()).trim() || `answered with ${answer.status}`;
  } catch {
    return "no answer: the process may have ended";
  }
}

/** The shown services: one, or both sides of the demo. */
const shownServices = () => (model.isDemo ? model.services.slice(0, 2) : model.services.slice(shared.service, shared.service + 1));

/** Makes the views that the fleet needs. */
function arrange() {
  const wanted = shownServices().length;
  if (sides.length !== wanted) {
    sides = Array.from({ length: wanted }, (_, index) => new Side(`side-${index}`, (found) => openReplica(index, found)));
    byId("sides").replaceChildren(...sides.map((side) => side.root));
    if (model.isDemo) sides.forEach((side, index) => side.extra.append(demo.policies[index].root));
  }
  byId("sides").classList.toggle("two", wanted === 2);
  if (!trends || trends instanceof DemoTrends !== model.isDemo) {
    trends?.root.remove();
    trends = model.isDemo ? new DemoTrends() : new ServiceTrends();
    byId("trends").append(trends.root);
  }
  setShown(byId("demo"), model.isDemo);
  setText(byId("role"), `${model.fleet.role} ${model.fleet.version}`);
  const several = hasSeveral();
  setShown(byId("services-box"), several);
  setShown(byId("views"), hasConfiguration() || several);
  for (const link of byId("views").children) {
    const shown = link.dataset.view === "fleet" || (link.dataset.view === "services" ? several : hasConfiguration());
    setShown(link, shown);
  }
  showView();
  fillList(byId("services"), model.services, () => element("option"), (option, service, index) => {
    setText(option, service.name);
    option.value = String(index);
  });
  byId("services").value = String(shared.service);
}

const hasSeveral = () => !model.isDemo && model.services.length > 1;
const hasConfiguration = () => model.fleet?.role === "serve" || Boolean(model.fleet?.certificates?.length);

/** The page in the address: a page's name, or a service's for its fleet; otherwise the first page. */
function viewInAddress() {
  const wanted = location.hash.startsWith("#/") ? location.hash.slice(2) : "";
  const found = VIEWS.includes(wanted) ? wanted : serviceInAddress() >= 0 ? "fleet" : hasSeveral() ? "services" : "fleet";
  const isThere = found === "fleet" || (found === "services" ? hasSeveral() : hasConfiguration());
  return isThere ? found : "fleet";
}

/** Shows the page that the address names. */
function showView() {
  view = viewInAddress();
  for (const name of VIEWS) setShown(byId(`view-${name}`), name === view);
  for (const link of byId("views").children) attributes(link, { "aria-current": link.dataset.view === view ? "page" : null });
  if (view !== "fleet") closeReplica();
  soon();
}

/** The fleet of a service. @param {number} place */
function openService(place) {
  location.hash = encodeURIComponent(model.services[place].name);
}

/** Goes to a problem: to a page, or to a service's fleet and a replica of it. @param {import("./problems.js").Problem} problem */
function showProblem({ page, service, replica: found }) {
  if (page) location.hash = `#/${page}`;
  if (service === undefined) return;
  share({ service, pointed: null });
  openService(service);
  showService();
  if (found !== undefined && shared.chosen?.replica !== found) openReplica(0, found);
}

/** Requests the history of the shown services, once for each. */
async function askHistory() {
  historyAskedAt = Date.now();
  for (const service of view === "services" ? model.services.slice(0, HISTORIES_MAX) : shownServices()) {
    if (service.hasHistory) continue;
    service.hasHistory = true;
    const history = await fetchJson(`/history?${new URLSearchParams({ service: service.name })}`);
    if (history) model.handleHistory(service, history);
    else service.hasHistory = false;
    soon();
  }
}

/** The names of the shown service and of the opened replica, because indices may differ in the next fleet. */
function namesShown() {
  const shown = model.services[shared.service];
  const of = shared.chosen && model.services[shared.chosen.service];
  return { service: shown?.name, opened: of && [of.name, of.told.replicas[shared.chosen?.replica ?? -1]?.name] };
}

/** The index of the service in the address, or -1. */
function serviceInAddress() {
  try {
    const name = decodeURIComponent(location.hash.slice(1));
    return model.services.findIndex((service) => service.name === name);
  } catch {
    return -1;
  }
}

/** @param {any} fleet */
function handleFleet(fleet) {
  const before = namesShown();
  const anew = model.handleFleet(fleet);
  setDecisions(fleet.role !== "agent");
  const place = anew ? serviceInAddress() : model.services.findIndex((service) => service.name === before.service);
  // A side of the demo keeps its index when its policy, and with it its name, changes.
  share({ service: model.isDemo ? 0 : Math.max(0, place), pointed: null });
  if (anew) closeReplica();
  else follow(before.opened);
  // The time without a connection is missing in the history.
  for (const service of model.services) service.hasHistory = false;
  replica.renew();
  arrange();
  void askHistory();
  followDecisions();
}

/** Keeps an opened replica open at its new index, or closes it if it is gone. @param {any[] | null | undefined} opened the names of its service and of it */
function follow(opened) {
  if (!opened || !shared.chosen) return;
  const [of, name] = opened;
  const service = model.isDemo ? shared.chosen.service : model.services.findIndex((service) => service.name === of);
  const found = model.services[service]?.told.replicas.findIndex((/** @type {any} */ replica) => replica.name === name) ?? -1;
  if (found < 0) closeReplica();
  else share({ chosen: { service, replica: found } });
}

/** Polls the decisions of the shown service, or of both sides of the demo. */
function followDecisions() {
  const service = model.services[shared.service];
  decisions.follow(model.isDemo || !service ? {} : { service: service.name });
}

/** @param {any} tick */
function handleTick(tick) {
  if (!model.handleTick(tick)) return;
  soon();
  // The history was of another process with the same number, or there was no answer.
  if (Date.now() - historyAskedAt > HISTORY_EVERY_MS && shownServices().some((service) => !service.hasHistory)) void askHistory();
}

/** Draws in the next frame, only once for several calls. */
function soon() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    show();
  });
}

function show() {
  if (!model.tick || document.hidden) return;
  const found = problemsOf(model, model.tick.at_ms);
  problems.show(found);
  if (view === "services") services.show(model, found);
  else if (view === "configuration") configuration.show(model);
  else showFleet();
  speak(shownServices(), found.length);
}

function showFleet() {
  const shown = shownServices();
  shown.forEach((service, index) => {
    frames[index].follow(service);
    frames[index].ghost = shown.length === 2 ? ghostOf(shown[1 - index]) : null;
  });
  const hint = idleHint();
  shown.forEach((service, index) => sides[index]?.show(service, frames[index], model.tick.demo?.sides[index] ?? null, hint));
  if (model.isDemo) demo.show(model);
  const some = shown.some((service) => service.replicas.length > 1);
  setShown(byId("tools"), some || hasSeveral());
  // Without a request there is no history to draw.
  setShown(byId("trends"), model.isDemo || shown.some((service) => service.hasTraffic));
  ranges.show();
  trends?.show(shown, model.tick.at_ms);
  showOwn(model);
  if (!shared.chosen) return;
  const service = model.services[shared.chosen.service];
  if (service) replica.show(model, service, shared.chosen.replica);
}

/** A hint while there are no requests. */
function idleHint() {
  const [listener] = model.fleet.listeners ?? [];
  if (!listener) return "No request has come yet. Send one to the address that the agent listens at.";
  // The routes decide which requests reach the service.
  if (hasSeveral()) return `No request has come for ${model.services[shared.service].name} yet. The page Configuration lists the routes that lead to it.`;
  const address = listener.address.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]");
  return `No request has come yet. Send one: curl ${[listener.tls.length ? "https:" : "http:", "", address, ""].join("/")}`;
}

/** Updates the text for screen readers: at once when the number of problems changes, otherwise now and then. @param {import("./model.js").Service[]} shown @param {number} wrong */
function speak(shown, wrong) {
  const isNews = wrong !== spokenProblems;
  if (!isNews && Date.now() - spokenAt < SPEAK_EVERY_MS) return;
  spokenAt = Date.now();
  spokenProblems = wrong;
  if (model.isDemo) setText(byId("spoken"), spokenDemo(model.tick.demo));
  else if (shown[0]?.tick) {
    const { name, tick, replicas } = shown[0];
    const out = replicas.filter((replica) => replica.out).length;
    const failed = tick.requests ? tick.failed / tick.requests : 0;
    setText(byId("spoken"), `${plural(wrong, "problem")}. ${name}: ${rate(tick.rate)} requests per second, ${percent(failed)} errors, p99 ${span(tick.latency_10s?.p99_us)}; ${count(out)} of ${plural(replicas.length, "replica")} take no requests.`);
  }
}

/** @param {number} side @param {number} found */
function openReplica(side, found) {
  const service = model.isDemo ? side : shared.service;
  // Choosing the opened replica again closes it.
  if (!replica.root.hidden && shared.chosen?.service === service && shared.chosen.replica === found) return closeReplica();
  share({ chosen: { service, replica: found } });
  document.body.classList.add("has-sheet");
  void replica.open(model.services[service], found).then(soon);
  soon();
}

function closeReplica() {
  if (replica.root.hidden) return;
  const from = shared.chosen?.service ?? 0;
  replica.close();
  document.body.classList.remove("has-sheet");
  share({ chosen: null });
  sides[model.isDemo ? from : 0]?.fleet.plot.focus();
}

/** @param {import("./stream.js").Link} link @param {number} quietMs */
function handleLink(link, quietMs) {
  const shown = model.tick ? ` Showing data from ${ago(quietMs)} ago.` : "";
  const texts = {
    connecting: ["connecting", ""],
    live: ["live", ""],
    silent: ["no data", `The process sends no data.${shown} See whether its machine is overloaded.`],
    lost: ["connection lost", `Connection lost; connecting again.${shown} See whether the process runs.`],
  };
  const [short, long] = texts[link];
  const phase = model.tick?.phase;
  setText(byId("link"), link === "live" && phase && phase !== "serving" ? phase : short);
  attributes(byId("link"), { "data-link": link });
  setText(byId("banner"), long);
  setShown(byId("banner"), long !== "");
  document.body.classList.toggle("stale", link === "lost" || link === "silent");
  // Only once, because the clock in the banner would be read out each second.
  if (link !== spokenLink) setText(byId("spoken"), short);
  spokenLink = link;
}

/** Updates the page for the chosen service. */
function showService() {
  byId("services").value = String(shared.service);
  void askHistory();
  followDecisions();
  soon();
}

function setUpTools() {
  for (const [key, text] of ORDERS) {
    const option = element("option", "", text);
    option.value = key;
    byId("sort").append(option);
  }
  byId("sort").addEventListener("change", () => share({ sort: byId("sort").value }));
  byId("filter").addEventListener("input", () => share({ filter: byId("filter").value }));
  byId("table").addEventListener("click", () => share({ table: !shared.table }));
  byId("services").addEventListener("change", () => openService(Number(byId("services").value)));
  window.addEventListener("hashchange", () => {
    showView();
    void askHistory();
    const found = serviceInAddress();
    if (found < 0 || found === shared.service) return;
    closeReplica();
    share({ service: found, pointed: null });
    showService();
  });
  // The address contains the service, so the link must not overwrite it.
  byId("skip").addEventListener("click", (/** @type {Event} */ event) => {
    event.preventDefault();
    byId("main").focus();
  });
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("help-close").addEventListener("click", () => byId("help").close());
}

function setUpTheme() {
  const set = (/** @type {string} */ theme) => {
    attributes(document.documentElement, { "data-theme": theme === "system" ? null : theme });
    setText(byId("theme"), `theme: ${theme}`);
    forgetTheme();
    soon();
  };
  let theme = "system";
  try {
    theme = localStorage.getItem("theme") ?? "system";
  } catch {
    // Without local storage, the system's theme is used.
  }
  set(THEMES.includes(theme) ? theme : "system");
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    set(theme);
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // The choice then lasts as long as the page.
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetTheme();
    soon();
  });
}

/** @param {KeyboardEvent} event */
function handleKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writing = event.target instanceof HTMLElement && event.target.matches("input[type=search], select");
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (event.target === byId("filter")) byId("filter").blur();
    else closeReplica();
    return;
  }
  if (writing || document.querySelector("dialog[open]")) return;
  /** @type {Record<string, () => void>} */
  const acts = {
    "/": () => byId("filter").focus(),
    f: () => sides[0]?.fleet.plot.focus(),
    t: () => share({ table: !shared.table }),
    "?": () => byId("help").showModal(),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

let before = { ...shared };
onShared(() => {
  // Moving the pointer changes only the drawing; other changes also change the data in it.
  const pointing = Object.entries(shared).every(([key, value]) => key === "pointed" || before[/** @type {keyof typeof before} */ (key)] === value);
  before = { ...shared };
  attributes(byId("table"), { "aria-pressed": String(shared.table) });
  if (pointing) for (const side of sides) side.repaint();
  else soon();
});

setUpTools();
setUpTheme();
document.addEventListener("keydown", handleKey);
document.addEventListener("visibilitychange", soon);
onWidth(soon);
new Stream("/events", { fleet: handleFleet, tick: handleTick, link: handleLink });
