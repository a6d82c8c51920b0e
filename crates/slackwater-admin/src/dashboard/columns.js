// A fleet as columns, one for each replica: requests in flight against the limit, latency, and
// requests per second with the failed ones in red. A bar has at most three encodings, and its
// number beside it where there is room.

import { fit, label, level, theme } from "./canvas.js";
import { logMarks, logScale, rootMarks, rootScale } from "./scales.js";
import { carries, clock, count, rate, shortCount, span, spanMark, stateOf } from "./words.js";
import { troubleText } from "./model.js";

/** Below this width columns cannot be distinguished, and the fleet is drawn as cells. */
const PITCH_MIN = 9;
/** From this width up, each bar has its value beside it. */
const PITCH_LABELLED = 27;
/** From this width up, a state is written out. */
const PITCH_STATE = 74;
/** From this width up, there is room for a second number. */
const PITCH_WIDE = 110;
const BAR_MAX = 130;

const GUTTER = 46;
/** Space above each row: its name, and the number of the highest bar. */
const HEADING = 36;
const STATES_HEIGHT = 18;
const NAMES_HEIGHT = 16;

/** Heights of the three rows: with another fleet beside it, and alone. */
const ROWS = { low: [116, 70, 44], tall: [190, 104, 64] };

/** @param {boolean} tall */
const rowsOf = (tall) => (tall ? ROWS.tall : ROWS.low);
/** @param {boolean} tall */
const heightOf = (tall) => rowsOf(tall).reduce((sum, height) => sum + height + HEADING, 0) + STATES_HEIGHT + NAMES_HEIGHT;

/**
 * @typedef {object} Scene what is drawn
 * @property {import("./model.js").Replica[]} replicas in their order
 * @property {number | null} limit
 * @property {import("./frame.js").Frame} frame
 * @property {number | null} pointed the index of a replica
 * @property {number | null} chosen as above
 * @property {boolean} tall whether there is room for tall rows
 */

/** Whether this many columns can be distinguished. @param {number} width @param {number} count */
export const hasRoom = (width, count) => (width - GUTTER) / Math.max(count, 1) >= PITCH_MIN;

/** @param {number} width @param {number} count @param {boolean} tall */
export function layout(width, count, tall) {
  const pitch = (width - GUTTER) / Math.max(count, 1);
  return {
    height: heightOf(tall),
    perRow: count,
    /** @param {number} x */
    placeAt(x) {
      const place = Math.floor((x - GUTTER) / pitch);
      return place >= 0 && place < count ? place : null;
    },
    /** The middle of a replica's column, and the top of its tip. @param {number} place @returns {[number, number]} */
    pointOf: (place) => [GUTTER + pitch * (place + 0.5), HEADING],
    pitch,
  };
}

/**
 * Positions of all parts.
 * @param {number} width
 * @param {Scene} scene
 */
function placesOf(width, scene) {
  const { frame, replicas } = scene;
  const { pitch, height } = layout(width, replicas.length, scene.tall);
  const [rifHeight, latencyHeight, rateHeight] = rowsOf(scene.tall);
  const rifBase = HEADING + rifHeight;
  const latencyBase = rifBase + HEADING + latencyHeight;
  const rateBase = latencyBase + HEADING + rateHeight;
  const rif = rootScale(frame.rifMost, rifHeight);
  const latency = logScale(frame.latencyLeast, frame.latencyMost, latencyHeight);
  return {
    pitch, height, width, rifBase, latencyBase, rateBase, rifHeight, latencyHeight, rateHeight,
    right: width,
    bar: Math.max(1, pitch >= 12 ? Math.min(BAR_MAX, pitch * 0.62) : pitch - 2),
    isLabelled: pitch >= PITCH_LABELLED,
    middle: (/** @type {number} */ place) => GUTTER + pitch * (place + 0.5),
    rifY: (/** @type {number} */ value) => rifBase - rif(value),
    latencyY: (/** @type {number} */ value) => latencyBase - latency(value),
    rateY: (/** @type {number} */ value) => rateBase - (Math.min(value, frame.rateMost) / frame.rateMost) * rateHeight,
  };
}

/** @typedef {ReturnType<typeof placesOf>} Places */

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {number} width
 * @param {Scene} scene
 */
export function paint(draw, width, scene) {
  const places = placesOf(width, scene);
  paintGrounds(draw, places, scene);
  paintAxes(draw, places, scene);
  scene.replicas.forEach((replica, place) => {
    paintInFlight(draw, places, replica, place);
    paintLatency(draw, places, replica, place);
    paintRate(draw, places, replica, place);
    paintState(draw, places, replica, place);
  });
  if (scene.limit !== null) dashed(draw, GUTTER, places.right, places.rifY(scene.limit), theme().ink, [5, 3]);
  paintGhost(draw, places, scene.frame);
  paintNames(draw, places, scene);
  const chosen = scene.replicas.findIndex((replica) => replica.index === scene.chosen);
  if (chosen >= 0) {
    draw.strokeStyle = theme().ink;
    draw.lineWidth = 2;
    draw.strokeRect(GUTTER + places.pitch * chosen + 1, HEADING - 3, places.pitch - 2, places.height - HEADING + 2);
    draw.lineWidth = 1;
  }
}

/** Backgrounds: below the limit, and behind columns of replicas that are pointed at, chosen, or in trouble. @param {CanvasRenderingContext2D} draw @param {Places} places @param {Scene} scene */
function paintGrounds(draw, places, scene) {
  const colours = theme();
  if (scene.limit !== null) {
    draw.fillStyle = colours.room;
    draw.fillRect(GUTTER, places.rifY(scene.limit), places.right - GUTTER, places.rifBase - places.rifY(scene.limit));
  }
  scene.replicas.forEach((replica, place) => {
    const marked = replica.index === scene.pointed || replica.index === scene.chosen;
    if (!marked && !replica.alarming && !isFailing(replica)) return;
    draw.fillStyle = marked ? colours.well : colours["alarm-ground"];
    draw.fillRect(GUTTER + places.pitch * place, HEADING - 3, places.pitch, places.height - HEADING + 3);
  });
}

/** Whether most of its requests fail. @param {import("./model.js").Replica} replica */
const isFailing = ({ rate: sent, failures }) => failures > 0 && failures >= sent / 2;

/** @param {CanvasRenderingContext2D} draw @param {Places} places @param {Scene} scene */
function paintAxes(draw, places, { frame, replicas, limit }) {
  const colours = theme();
  const reported = replicas.some((replica) => replica.reported);
  const mark = (/** @type {number} */ y, /** @type {string} */ text) => {
    level(draw, GUTTER, y, places.right - GUTTER, colours.line);
    label(draw, text, GUTTER - 6, y, colours.soft, "right");
  };
  // The longest title that leaves room for the other side's maximum.
  const room = places.right - (frame.ghost ? draw.measureText(`┄ ${frame.ghost.name}: up to 10,000 ms`).width + 12 : 0);
  const title = (/** @type {number} */ y, /** @type {string[]} */ texts) => label(draw, texts.find((text) => draw.measureText(text).width <= room) ?? texts[texts.length - 1], 0, y, colours.ink);
  const hot = limit === null ? "" : limit === 0 ? "; limit 0, next to nothing is" : `; ╌ limit ${limit}: hot from here on`;
  title(9, [`${reported ? "In flight, as replicas report" : "In flight from here"}${hot}`, `In flight${hot}`, `In flight${limit === null ? "" : `, ╌ limit ${limit}`}`]);
  for (const value of rootMarks(frame.rifMost, places.rifHeight, 22)) mark(places.rifY(value), shortCount(value));
  title(places.rifBase + 14, [reported ? "Latency: expected, and p50 to p99 seen here" : "Latency: p50 to p99 seen here", "Latency"]);
  for (const value of logMarks(frame.latencyLeast, frame.latencyMost, places.latencyHeight, 14)) mark(places.latencyY(value), spanMark(value));
  label(draw, "Requests per second", 0, places.latencyBase + 14, colours.ink);
  for (const value of [0, frame.rateMost]) mark(places.rateY(value), shortCount(value));
}

/** Draws requests in flight as height and colour, with a mark at the replica's capacity. @param {CanvasRenderingContext2D} draw @param {Places} places @param {import("./model.js").Replica} replica @param {number} place */
function paintInFlight(draw, places, replica, place) {
  const [x, y] = [places.middle(place), places.rifY(replica.rif)];
  const colours = theme();
  draw.fillStyle = heatColour(replica);
  draw.fillRect(x - places.bar / 2, y, places.bar, places.rifBase - y);
  if (replica.capacity !== null) {
    const wide = Math.min(places.pitch, places.bar + 6);
    draw.fillStyle = colours.first;
    draw.fillRect(x - wide / 2, Math.round(places.rifY(replica.capacity)) - 1, wide, 2);
  }
  if (!places.isLabelled) return;
  const both = replica.capacity !== null && places.pitch >= PITCH_STATE ? `${count(replica.rif)} of ${Number.isInteger(replica.capacity) ? count(replica.capacity) : carries(replica.capacity * 1000)}` : count(replica.rif);
  label(draw, both, x, y - 7, colours.ink, "center");
}

/** Draws a dot at the expected latency, and a line from the median to p99. @param {CanvasRenderingContext2D} draw @param {Places} places @param {import("./model.js").Replica} replica @param {number} place */
function paintLatency(draw, places, replica, place) {
  const x = places.middle(place);
  const colours = theme();
  draw.fillStyle = replica.out ? colours.second : colours.cold;
  let top = places.latencyBase;
  if (replica.p50 !== null && replica.p99 !== null) {
    const [low, high] = [places.latencyY(replica.p50), places.latencyY(replica.p99)];
    draw.globalAlpha = 0.45;
    const wide = Math.max(1, Math.min(8, places.pitch * 0.2));
    draw.fillRect(x - wide / 2, high, wide, Math.max(2, low - high));
    draw.globalAlpha = 1;
    top = high;
  }
  if (replica.latency !== null) {
    const size = Math.max(1.2, Math.min(5, places.pitch * 0.16));
    const y = places.latencyY(replica.latency);
    draw.beginPath();
    draw.arc(x, y, size, 0, 2 * Math.PI);
    draw.fill();
    top = Math.min(top, y);
    if (places.pitch >= PITCH_WIDE) label(draw, span(replica.latency), x + 12, y, colours.ink);
  }
  const least = places.rifBase + HEADING - 8;
  if (places.pitch >= PITCH_WIDE && replica.p99 !== null) label(draw, `p99 ${span(replica.p99)}`, x - 12, Math.max(top, least), colours.soft, "right");
  else if (places.pitch >= 46 && replica.latency !== null) label(draw, span(replica.latency), x, Math.max(top - 9, least), colours.ink, "center");
}

/** Draws the request rate, with failed requests in red at the bottom. @param {CanvasRenderingContext2D} draw @param {Places} places @param {import("./model.js").Replica} replica @param {number} place */
function paintRate(draw, places, replica, place) {
  const [x, top] = [places.middle(place), places.rateY(replica.rate)];
  const colours = theme();
  draw.fillStyle = replica.out ? colours.second : colours.cold;
  draw.fillRect(x - places.bar / 2, top, places.bar, places.rateBase - top);
  // Failures stay visible even if there are few.
  const failed = replica.failures > 0 ? Math.max(3, places.rateBase - places.rateY(replica.failures)) : 0;
  if (failed > 0) {
    draw.fillStyle = colours.alarm;
    draw.fillRect(x - places.bar / 2, places.rateBase - failed, places.bar, failed);
  }
  const y = Math.min(top, places.rateBase - failed) - 7;
  if (places.pitch >= PITCH_WIDE && replica.failures > 0) label(draw, `${rate(replica.rate)}, ${rate(replica.failures)} failed`, x, y, colours.alarm, "center");
  else if (places.pitch >= 40) label(draw, rate(Math.round(replica.rate)), x, y, replica.failures > 0 ? colours.alarm : colours.ink, "center");
}

/** Draws the state unless it is "available", as a word where there is room. @param {CanvasRenderingContext2D} draw @param {Places} places @param {import("./model.js").Replica} replica @param {number} place */
function paintState(draw, places, replica, place) {
  const colours = theme();
  const { sign, text } = stateOf(replica.state);
  const trouble = troubleText(replica.trouble);
  const mark = sign || (trouble ? "▲" : "");
  if (!mark) return;
  const [x, y] = [places.middle(place), places.rateBase + 11];
  const colour = replica.alarming || trouble ? colours.alarm : colours.soft;
  if (places.pitch >= PITCH_STATE) {
    const since = places.pitch >= PITCH_WIDE && replica.since !== null ? ` for ${clock(Math.max(0, replica.at - replica.since))}` : "";
    label(draw, fit(draw, `${mark} ${sign ? text + since : trouble}`, places.pitch - 6), x, y, colour, "center");
  } else if (places.pitch >= PITCH_MIN + 3) label(draw, mark, x, y, colour, "center");
  else {
    draw.fillStyle = colour;
    draw.fillRect(x - Math.max(1, places.pitch / 2 - 1), y - 4, Math.max(2, places.pitch - 2), 6);
  }
}

/** Draws the other side's maximum on this side's scale, or an arrow if it is beyond. @param {CanvasRenderingContext2D} draw @param {Places} places @param {import("./frame.js").Frame} frame */
function paintGhost(draw, places, { ghost, rifMost, latencyMost }) {
  if (!ghost) return;
  const colours = theme();
  const one = (/** @type {number} */ value, /** @type {number} */ most, /** @type {string} */ text, /** @type {number} */ y, /** @type {number} */ head) => {
    const isBeyond = value > most;
    dashed(draw, GUTTER, places.right, isBeyond ? head + 10 : y, colours.soft, [2, 4]);
    label(draw, `${isBeyond ? "↑" : "┄"} ${ghost.name}: up to ${text}`, places.right, head, colours.soft, "right");
  };
  one(ghost.rif, rifMost, count(ghost.rif), places.rifY(ghost.rif), 9);
  if (ghost.latency !== null) one(ghost.latency, latencyMost, span(ghost.latency), places.latencyY(ghost.latency), places.rifBase + 14);
}

/** @param {CanvasRenderingContext2D} draw @param {number} left @param {number} right @param {number} y @param {string} colour @param {number[]} dash */
function dashed(draw, left, right, y, colour, dash) {
  draw.strokeStyle = colour;
  draw.setLineDash(dash);
  draw.beginPath();
  draw.moveTo(left, Math.round(y) + 0.5);
  draw.lineTo(right, Math.round(y) + 0.5);
  draw.stroke();
  draw.setLineDash([]);
}

/** @param {number} limit */
export const limitText = (limit) => (limit === 0 ? "limit 0: next to nothing in flight" : `limit ${limit}: hot from here on`);

/**
 * Orange: hot by its last report. Grey: takes no requests. Blue: all others. If a limit of 0
 * makes all hot, idle replicas stay blue.
 * @param {import("./model.js").Replica} replica
 */
export function heatColour(replica) {
  const colours = theme();
  if (replica.out) return colours.second;
  return replica.hot && replica.rif > 0 ? colours.hot : colours.cold;
}

/** Draws names where there is room: whole, without their common part, or every second, fifth or tenth. @param {CanvasRenderingContext2D} draw @param {Places} places @param {Scene} scene */
function paintNames(draw, places, scene) {
  const colours = theme();
  const { replicas } = scene;
  const widest = (/** @type {(replica: import("./model.js").Replica) => string} */ name) => replicas.reduce((most, replica) => Math.max(most, name(replica).length), 1) * 6.4 + 6;
  const whole = widest((replica) => replica.name) <= places.pitch;
  const name = whole ? (/** @type {import("./model.js").Replica} */ replica) => replica.name : (/** @type {import("./model.js").Replica} */ replica) => replica.short;
  const every = [1, 2, 5, 10, 20, 50].find((step) => step * places.pitch >= widest(name));
  if (!every) return;
  replicas.forEach((replica, place) => {
    const marked = replica.index === scene.pointed || replica.index === scene.chosen;
    if (place % every === 0) label(draw, name(replica), places.middle(place), places.height - 8, marked ? colours.ink : colours.soft, "center");
  });
}
