// The hot–cold plane: requests in flight to the right, latency upwards, and the limit between cold
// and hot. Pale dots are the last reports of replicas, strong ones the reports in the pool; the
// next pick is marked. Left of the limit the lowest report wins; if there is none, the leftmost.
// Policies that compare scores have no limit, and the ring marks the next pick.

import { begin, label, level, theme } from "./canvas.js";
import { heatColour } from "./columns.js";
import { logMarks, logScale, rootMarks, rootScale } from "./scales.js";
import { shortCount, spanMark } from "./words.js";

const GUTTER = 46;
const TOP = 20;
const BOTTOM = 34;
const RIGHT = 12;
/** Space for the dots of idle replicas. */
const INSET = 12;
const AGE_MAX_MS = 1_000;

/**
 * @typedef {object} PlaneScene
 * @property {import("./model.js").Service} service
 * @property {number | null} limit of that worker
 * @property {import("./rule.js").Report[]} pool of one worker
 * @property {import("./rule.js").Report | null} next
 * @property {import("./frame.js").Frame} frame
 * @property {number | null} pointed
 * @property {number | null} chosen
 */

/** @param {number} width @param {number} height @param {import("./frame.js").Frame} frame */
function scales(width, height, frame) {
  const across = rootScale(frame.rifMost, width - GUTTER - RIGHT - INSET);
  const up = logScale(frame.latencyLeast, frame.latencyMost, height - TOP - BOTTOM);
  return {
    x: (/** @type {number} */ rif) => GUTTER + INSET + across(rif),
    y: (/** @type {number} */ latency) => height - BOTTOM - up(latency),
  };
}

/** More dots than this are drawn small, and spread more widely. */
const FEW = 200;

/** Spreads replicas with the same number of requests a little, always in the same way. @param {number} index @param {number} all */
const spread = (index, all) => (((index * 0.618034) % 1) - 0.5) * (all > FEW ? 20 : 5);

/**
 * The replica nearest to a point, if one is near.
 * @param {PlaneScene} scene
 * @param {number} width @param {number} height @param {number} px @param {number} py
 */
export function replicaAt(scene, width, height, px, py) {
  const { x, y } = scales(width, height, scene.frame);
  let [found, best] = [/** @type {number | null} */ (null), 12 ** 2];
  const { replicas } = scene.service;
  for (const replica of replicas) {
    if (replica.latency === null) continue;
    const distance = (x(replica.rif) + spread(replica.index, replicas.length) - px) ** 2 + (y(replica.latency) - py) ** 2;
    if (distance < best) [found, best] = [replica.index, distance];
  }
  return found;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {PlaneScene} scene
 */
export function paint(canvas, width, height, scene) {
  const draw = begin(canvas, width, height);
  if (!draw) return;
  const { service, frame, pool, next } = scene;
  const colours = theme();
  const { x, y } = scales(width, height, frame);
  const [base, right] = [height - BOTTOM, width - RIGHT];
  // At a limit of 0 the cold side is empty.
  const limit = scene.limit || null;
  // Between the last cold value and the first hot one.
  const border = limit === null ? 0 : (x(limit - 1) + x(limit)) / 2;
  if (limit !== null) {
    draw.fillStyle = colours["hot-ground"];
    draw.fillRect(border, TOP, right - border, base - TOP);
    draw.fillStyle = colours.room;
    draw.fillRect(GUTTER, TOP, border - GUTTER, base - TOP);
  }
  for (const mark of logMarks(frame.latencyLeast, frame.latencyMost, base - TOP, 18)) {
    level(draw, GUTTER, y(mark), right - GUTTER, colours.line);
    label(draw, spanMark(mark), GUTTER - 6, y(mark), colours.soft, "right");
  }
  for (const mark of rootMarks(frame.rifMost, right - GUTTER - INSET, 26)) {
    draw.fillStyle = colours.line;
    draw.fillRect(Math.round(x(mark)), base, 1, 4);
    label(draw, shortCount(mark), x(mark), base + 12, colours.soft, mark === frame.rifMost ? "right" : "center");
  }
  label(draw, "requests in flight →", right, base + 26, colours.soft, "right");
  if (limit === null || border > 110) label(draw, "↑ latency", 0, 8, colours.soft);

  const many = service.replicas.length > FEW;
  const fair = 1 / Math.max(1, service.replicas.length);
  for (const replica of service.replicas) {
    if (replica.latency === null) continue;
    // The area is proportional to the share.
    const size = many ? 1.8 : Math.min(9, 1.5 + 3.5 * Math.sqrt(replica.share / fair));
    draw.fillStyle = heatColour(replica);
    draw.globalAlpha = many ? 0.4 : pool.length ? 0.28 : 0.6;
    draw.beginPath();
    draw.arc(x(replica.rif) + spread(replica.index, service.replicas.length), y(replica.latency), size, 0, 2 * Math.PI);
    draw.fill();
  }
  for (const report of pool) {
    if (report.latency_us === null) continue;
    draw.globalAlpha = Math.max(0.35, 1 - (0.65 * report.age_ms) / AGE_MAX_MS);
    draw.fillStyle = scene.limit === null ? colours.second : report.hot ? colours.hot : colours.cold;
    draw.strokeStyle = colours.card;
    draw.lineWidth = 1.5;
    draw.beginPath();
    draw.arc(x(report.rif) + spread(report.replica, service.replicas.length), y(report.latency_us), 5, 0, 2 * Math.PI);
    draw.fill();
    draw.stroke();
  }
  draw.globalAlpha = 1;
  draw.lineWidth = 1;
  if (limit !== null) paintLimit(draw, limit, border, base, right);
  if (next?.latency_us) {
    const [nx, ny] = [x(next.rif) + spread(next.replica, service.replicas.length), y(next.latency_us)];
    ring(draw, nx, ny, 9, colours.ink, 2);
    const text = `next: ${service.replicas[next.replica]?.short ?? next.replica}`;
    const left = nx + 14 + draw.measureText(text).width > right;
    halo(draw, text, left ? nx - 14 : nx + 14, ny, left ? "right" : "left");
  }
  for (const index of [scene.chosen, scene.pointed]) {
    const replica = index === null ? undefined : service.replicas[index];
    if (replica && replica.latency !== null) ring(draw, x(replica.rif) + spread(replica.index, service.replicas.length), y(replica.latency), 12, colours.ink, 1.2);
  }
}

/** @param {CanvasRenderingContext2D} draw @param {number} limit @param {number} x @param {number} base @param {number} right */
function paintLimit(draw, limit, x, base, right) {
  const colours = theme();
  draw.strokeStyle = colours.ink;
  draw.setLineDash([5, 3]);
  draw.beginPath();
  draw.moveTo(Math.round(x) + 0.5, TOP - 4);
  draw.lineTo(Math.round(x) + 0.5, base);
  draw.stroke();
  draw.setLineDash([]);
  label(draw, "cold", x - 8, TOP - 10, colours.cold, "right");
  label(draw, "|", x + 0.5, TOP - 10, colours.soft, "center");
  label(draw, right - x > 120 ? `hot, from the limit of ${limit} on` : "hot", x + 8, TOP - 10, colours.hot, "left");
}

/** @param {CanvasRenderingContext2D} draw @param {number} x @param {number} y @param {number} size @param {string} colour @param {number} width */
function ring(draw, x, y, size, colour, width) {
  draw.strokeStyle = colour;
  draw.lineWidth = width;
  draw.beginPath();
  draw.arc(x, y, size, 0, 2 * Math.PI);
  draw.stroke();
  draw.lineWidth = 1;
}

/** Draws text that is legible on any background. @param {CanvasRenderingContext2D} draw @param {string} text @param {number} x @param {number} y @param {CanvasTextAlign} align */
function halo(draw, text, x, y, align) {
  const colours = theme();
  draw.textAlign = align;
  draw.textBaseline = "middle";
  draw.strokeStyle = colours.card;
  draw.lineWidth = 4;
  draw.lineJoin = "round";
  draw.strokeText(text, x, y);
  draw.lineWidth = 1;
  label(draw, text, x, y, colours.ink, align);
}
