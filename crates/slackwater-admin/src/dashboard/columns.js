// A fleet as columns, one for each replica: requests in flight against the limit, latency, share of
// the requests.

import { label, level, theme } from "./canvas.js";
import { logMarks, logScale, rootMarks, rootScale } from "./scales.js";
import { percent, shortCount, spanMark, stateOf } from "./words.js";
import { troubleText } from "./model.js";

/** More replicas than that are drawn as cells. */
export const COLUMNS_MAX = 120;

const GUTTER = 46;
const HEADING = 20;
const SIGNS_HEIGHT = 18;
const NAMES_HEIGHT = 16;
const PITCH_MAX = 90;
const BAR_MAX = 30;

/** Heights of the three rows: beside another fleet, and alone. */
const ROWS = { low: [128, 66, 28], tall: [290, 140, 60] };

/** @param {boolean} tall */
const rowsOf = (tall) => (tall ? ROWS.tall : ROWS.low);
/** @param {boolean} tall */
const heightOf = (tall) => rowsOf(tall).reduce((sum, height) => sum + height + HEADING, 0) + SIGNS_HEIGHT + NAMES_HEIGHT;

/**
 * @typedef {object} Scene what is drawn
 * @property {import("./model.js").Replica[]} replicas in their order
 * @property {number | null} limit
 * @property {import("./frame.js").Frame} frame
 * @property {number | null} pointed the index of a replica
 * @property {number | null} chosen as above
 * @property {number} fleet how many there are in all
 * @property {boolean} tall whether there is room for tall rows
 */

/** @param {number} width @param {number} count @param {boolean} tall */
export function layout(width, count, tall) {
  const pitch = Math.min(PITCH_MAX, (width - GUTTER) / Math.max(count, 1));
  return {
    height: heightOf(tall),
    perRow: count,
    /** @param {number} x */
    placeAt(x) {
      const place = Math.floor((x - GUTTER) / pitch);
      return place >= 0 && place < count ? place : null;
    },
    pitch,
  };
}

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {number} width
 * @param {Scene} scene
 */
export function paint(draw, width, scene) {
  const { replicas, frame, limit } = scene;
  const colours = theme();
  const { pitch, height: whole } = layout(width, replicas.length, scene.tall);
  const [rifHeight, latencyHeight, shareHeight] = rowsOf(scene.tall);
  const bar = Math.max(1, Math.min(BAR_MAX, pitch >= 6 ? pitch - Math.max(2, pitch * 0.28) : pitch - 1));
  const right = GUTTER + pitch * replicas.length;
  const middle = (/** @type {number} */ place) => GUTTER + pitch * (place + 0.5);
  const rifBase = HEADING + rifHeight;
  const latencyBase = rifBase + HEADING + latencyHeight;
  const shareBase = latencyBase + HEADING + shareHeight;
  const rif = rootScale(frame.rifMost, rifHeight);
  const latency = logScale(frame.latencyLeast, frame.latencyMost, latencyHeight);
  const equal = 1 / Math.max(scene.fleet, 1);
  const share = (/** @type {number} */ of) => Math.min(of / frame.shareMost, 1) * shareHeight;

  replicas.forEach((replica, place) => {
    if (replica.index === scene.pointed || replica.index === scene.chosen) {
      draw.fillStyle = colours.well;
      draw.fillRect(GUTTER + pitch * place, HEADING - 4, pitch, whole - HEADING + 4);
    }
  });

  // Room: everything below the limit that no bar takes.
  if (limit !== null) {
    draw.fillStyle = colours.room;
    draw.fillRect(GUTTER, rifBase - rif(limit), right - GUTTER, rif(limit));
  }
  label(draw, "Requests in flight", GUTTER, 9, colours.soft);
  for (const mark of rootMarks(frame.rifMost, rifHeight, 22)) {
    level(draw, GUTTER, rifBase - rif(mark), right - GUTTER, colours.line);
    label(draw, shortCount(mark), GUTTER - 6, rifBase - rif(mark), colours.soft, "right");
  }
  label(draw, "Latency", GUTTER, rifBase + 11, colours.soft);
  for (const mark of logMarks(frame.latencyLeast, frame.latencyMost, latencyHeight, 14)) {
    level(draw, GUTTER, latencyBase - latency(mark), right - GUTTER, colours.line);
    label(draw, spanMark(mark), GUTTER - 6, latencyBase - latency(mark), colours.soft, "right");
  }
  label(draw, "Share of requests", GUTTER, latencyBase + 11, colours.soft);
  for (const mark of [0, frame.shareMost]) level(draw, GUTTER, shareBase - share(mark), right - GUTTER, colours.line);
  label(draw, percent(frame.shareMost), GUTTER - 6, shareBase - shareHeight, colours.soft, "right");

  replicas.forEach((replica, place) => {
    const x = middle(place);
    const { out } = replica;
    draw.fillStyle = heatColour(replica);
    draw.globalAlpha = out ? 0.35 : 0.85;
    draw.fillRect(x - bar / 2, rifBase - rif(replica.rif), bar, rif(replica.rif));
    draw.globalAlpha = 1;
    if (replica.p50 !== null && replica.p99 !== null) {
      const [low, high] = [latency(replica.p50), latency(replica.p99)];
      draw.globalAlpha = 0.4;
      const wide = Math.max(1, Math.min(4, pitch * 0.2));
      draw.fillRect(x - wide / 2, latencyBase - high, wide, Math.max(1, high - low));
      draw.globalAlpha = 1;
    }
    if (replica.latency !== null) {
      const size = Math.max(1.2, Math.min(4, pitch * 0.2));
      draw.beginPath();
      draw.arc(x, latencyBase - latency(replica.latency), size, 0, 2 * Math.PI);
      draw.fill();
    }
    const part = share(replica.share);
    draw.fillStyle = out ? colours.line : colours.soft;
    draw.fillRect(x - bar / 2, shareBase - part, bar, part);
    paintSign(draw, replica, x, shareBase + 11, pitch);
  });
  for (const [place, { capacity }] of replicas.entries()) if (capacity !== null) paintVessel(draw, middle(place), rifBase, rif(capacity), Math.min(pitch, bar + 2));
  // Above all bars, so that neighbours' ends do not hide them.
  for (const [place, replica] of replicas.entries()) {
    if (!replica.reported || (replica.ours === 0 && replica.rif === 0)) continue;
    const wide = Math.min(pitch, bar + 6);
    draw.fillStyle = colours.ink;
    draw.fillRect(middle(place) - wide / 2, Math.round(rifBase - rif(replica.ours)) - 1, wide, 2);
  }

  if (limit !== null) {
    const y = rifBase - rif(limit);
    draw.strokeStyle = colours.ink;
    draw.setLineDash([5, 3]);
    draw.beginPath();
    draw.moveTo(GUTTER, Math.round(y) + 0.5);
    draw.lineTo(right, Math.round(y) + 0.5);
    draw.stroke();
    draw.setLineDash([]);
    const text = limitText(limit);
    if (draw.measureText(text).width < right - GUTTER - 120) label(draw, text, right, 9, colours.ink, "right");
  }
  if (replicas.length && share(equal) > 2 && share(equal) < shareHeight - 12) {
    draw.strokeStyle = colours.soft;
    draw.setLineDash([2, 3]);
    draw.beginPath();
    draw.moveTo(GUTTER, Math.round(shareBase - share(equal)) + 0.5);
    draw.lineTo(right, Math.round(shareBase - share(equal)) + 0.5);
    draw.stroke();
    draw.setLineDash([]);
    label(draw, percent(equal), GUTTER - 6, shareBase - share(equal), colours.soft, "right");
  }
  paintNames(draw, scene, pitch, whole, middle);
}

/**
 * What a replica can carry: the bar within is what it has; one that stands out above has too much.
 * @param {CanvasRenderingContext2D} draw
 * @param {number} x
 * @param {number} base
 * @param {number} height
 * @param {number} wide
 */
function paintVessel(draw, x, base, height, wide) {
  const [left, top] = [Math.round(x - wide / 2), Math.round(base - height)];
  draw.fillStyle = theme().first;
  draw.fillRect(left, top, Math.round(wide), 1.5);
  // Sides only where they do not take the bar's place.
  if (wide < 9) return;
  draw.fillRect(left, top, 1, base - top);
  draw.fillRect(left + Math.round(wide) - 1, top, 1, base - top);
}

/** @param {number} limit */
export const limitText = (limit) => (limit === 0 ? "the limit is 0: next to nothing is in flight" : `╌╌ limit ${limit}: hot from here on`);

/**
 * What the policy believes of a replica: cold or hot, by its last report. Grey where it goes by no limit or may not
 * choose it; and where a limit of 0 makes all hot, those that have nothing to do.
 * @param {import("./model.js").Replica} replica
 */
export function heatColour(replica) {
  const colours = theme();
  const idle = replica.hot && replica.rif === 0;
  return replica.out || replica.hot === null || idle ? colours.second : replica.hot ? colours.hot : colours.cold;
}

/**
 * The sign of a state or a trouble.
 * @param {CanvasRenderingContext2D} draw
 * @param {import("./model.js").Replica} replica
 * @param {number} x
 * @param {number} y
 * @param {number} pitch
 */
function paintSign(draw, replica, x, y, pitch) {
  const colours = theme();
  const trouble = troubleText(replica.trouble);
  const sign = stateOf(replica.state).sign || (trouble ? "▲" : "");
  if (!sign) return;
  if (pitch >= 9) label(draw, sign, x, y, colours.alarm, "center");
  else {
    draw.fillStyle = colours.alarm;
    draw.fillRect(x - Math.max(1, pitch / 2 - 0.5), y - 4, Math.max(2, pitch - 1), 6);
  }
}

/**
 * Names where there is room for them: all, or every second, fifth, tenth.
 * @param {CanvasRenderingContext2D} draw
 * @param {Scene} scene
 * @param {number} pitch
 * @param {number} whole the picture's height
 * @param {(place: number) => number} middle
 */
function paintNames(draw, scene, pitch, whole, middle) {
  const colours = theme();
  const { replicas } = scene;
  const widest = replicas.reduce((most, replica) => Math.max(most, replica.short.length), 1) * 6.2 + 4;
  const every = [1, 2, 5, 10, 20, 50].find((step) => step * pitch >= widest);
  if (!every) return;
  replicas.forEach((replica, place) => {
    const marked = replica.index === scene.pointed || replica.index === scene.chosen;
    if (place % every === 0) label(draw, replica.short, middle(place), whole - 7, marked ? colours.ink : colours.soft, "center");
  });
}
