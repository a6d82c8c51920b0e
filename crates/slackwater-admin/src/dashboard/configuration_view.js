// The configuration in force: listeners, routes, certificates, sources of replicas, and whether the
// last reload succeeded.

import { attributes, element, fillList, headRow, row, setShown, setText } from "./dom.js";
import { ago, count, moment, percent, plural } from "./words.js";

/** The most rows of a table. */
const ROWS_MAX = 500;
/** A certificate that ends within this time must be renewed. */
const EXPIRY_MS = 14 * 86_400_000;

/** A table in a card, filled with rows of texts. */
class List {
  /** @param {string} id @param {string} title @param {string[]} heads @param {string} none the text without rows */
  constructor(id, title, heads, none) {
    this.title = element("h3", "", title);
    this.title.id = `${id}-title`;
    this.rows = element("tbody");
    this.heads = heads;
    this.box = element("div", "table-box whole", element("table", "figures-table", headRow(heads), this.rows));
    attributes(this.box, { tabindex: "0", role: "region", "aria-label": `${title}, as a table` });
    this.none = element("p", "summary", none);
    this.root = element("section", "card", this.title, this.box, this.none);
    attributes(this.root, { "aria-labelledby": this.title.id, id });
  }

  /** @param {{texts: string[], bad?: boolean}[]} lines */
  show(lines) {
    setShown(this.box, lines.length > 0);
    setShown(this.none, !lines.length);
    fillList(this.rows, lines.slice(0, ROWS_MAX), () => row("", this.heads.slice(1).map(() => "")), (made, { texts, bad }) => {
      texts.forEach((text, i) => setText(made.cells[i], text));
      made.classList.toggle("alarming", Boolean(bad));
    });
  }
}

export class ConfigurationView {
  constructor() {
    this.reload = element("p", "reload");
    this.counts = element("p", "summary");
    this.reloads = element("section", "card", element("h3", "", "Last reload"), this.reload, this.counts);
    this.reloads.id = "reload";
    this.listeners = new List("listeners", "Listeners", ["listener", "address", "TLS", "client certificates", "PROXY header"], "There are no listeners.");
    this.routes = new List("routes", "Routes, the first that matches decides", ["route", "listener", "host", "path", "only", "goes to"], "There are no routes.");
    this.certificates = new List("certificates", "Certificates", ["for", "names", "expires", "file"], "No TLS: no certificate is shown.");
    this.services = new List("sources", "Services", ["service", "policy", "replicas", "replicas come from", "last answer"], "There are no services.");
    this.root = element("div", "configuration", this.reloads, this.listeners.root, this.routes.root, this.certificates.root, this.services.root);
  }

  /** @param {import("./model.js").Model} model */
  show({ fleet, tick, services }) {
    const now = tick.at_ms;
    const { reloads } = fleet;
    setShown(this.reloads, Boolean(reloads));
    if (reloads) {
      this.reload.classList.toggle("problem", Boolean(reloads.failure));
      setText(this.reload, reloadText(reloads, now, tick.uptime_ms));
      setText(this.counts, `${count(reloads.taken)} taken, ${count(reloads.refused)} refused since the start.`);
    }
    setShown(this.listeners.root, fleet.role === "serve");
    setShown(this.routes.root, fleet.role === "serve");
    this.listeners.show((fleet.listeners ?? []).map((/** @type {any} */ it) => ({
      texts: [it.name, it.address, it.tls.length ? it.tls.join(", ") : "no", it.client_certificates, it.proxy_protocol ? "required" : "no"],
    })));
    this.routes.show((fleet.routes ?? []).map((/** @type {any} */ it, /** @type {number} */ place) => ({
      texts: [String(place + 1), it.listeners.join(", ") || "every", it.hosts.join(", ") || "every", it.path ?? "every", it.only.join(", ") || "every request", targetText(it)],
    })));
    this.certificates.show((fleet.certificates ?? []).map((/** @type {any} */ it) => ({
      texts: [it.purpose, it.names.join(", ") || "–", expiryText(it.expires_s, now), it.file],
      bad: it.expires_s !== null && it.expires_s * 1000 - now < EXPIRY_MS,
    })));
    this.services.show(services.map(({ name, policy, told }) => ({
      texts: [name, policy, count(told.replicas.length), told.discovery && told.discovery.source !== "list" ? told.discovery.source : "the configuration", told.discovery?.failure ?? "taken"],
      bad: Boolean(told.discovery?.failure),
    })));
  }
}

/** @param {any} reloads @param {number} now @param {number} uptime */
function reloadText({ last_at_ms: at, failure }, now, uptime) {
  if (at === null) return `Not reloaded since the start, ${ago(uptime)} ago.`;
  const when = `${moment(at, now)}, ${ago(now - at)} ago`;
  return failure ? `Refused at ${when}; the configuration before stays in force.\n${failure}` : `Taken at ${when}.`;
}

/** Destination of a route: services with their share, and other actions. @param {any} route */
function targetText({ services, also }) {
  const sum = services.reduce((/** @type {number} */ all, /** @type {any} */ it) => all + it.weight, 0);
  const parts = services.map((/** @type {any} */ it) => (services.length > 1 ? `${it.name} ${percent(it.weight / sum)}` : it.name));
  if (also) parts.push(also);
  return parts.join(", ") || "–";
}

/** @param {number | null} end s since 1970 @param {number} now */
function expiryText(end, now) {
  if (end === null) return "unknown";
  const left = end * 1000 - now;
  const day = new Date(end * 1000).toISOString().slice(0, 10);
  return left < 0 ? `${day}: expired ${ago(-left)} ago` : `${day}, in ${left > EXPIRY_MS ? plural(Math.floor(left / 86_400_000), "day") : ago(left)}`;
}
