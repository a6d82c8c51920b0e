// A large fleet: all replicas by requests in flight as a skyline against the limit, and below it each as a cell, at a place
// that it keeps: how full it is, and whether it may be chosen.

import { label, level, theme } from "./canvas.js";
import { rootScale } from "./scales.js";
import { count, stateOf } from "./words.js";
import { troubleText } from "./model.js";

const HEADING = 20;
const SKYLINE = { low: 44, tall: 84 };
const GAP = 2;
const SIZES = [24, 22, 20, 18, 16, 14, 12, 10, 8];
const CELLS_MAX = { low: 300, tall: 520 };

/** @param {number} width @param {number} count @param {boolean} tall */
export function layout(width, count, tall) {
  const kind = tall ? "tall" : "low";
  const rows = (/** @type {number} */ size) => Math.max(1, Math.ceil(count / perRowOf(width, size)));
  const size = SIZES.find((size) => rows(size) * (size + GAP) <= CELLS_MAX[kind]) ?? SIZES[SIZES.length - 1];
  const perRow = perRowOf(width, size);
  const pitch = size + GAP;
  const top = 2 * HEADING + SKYLINE[kind] + 6;
  return {
    height: top + rows(size) * pitch,
    perRow,
    pitch,
    size,
    top,
    skyline: SKYLINE[kind],
    /** @param {number} x @param {number} y */
    placeAt(x, y) {
      const [column, row] = [Math.floor(x / pitch), Math.floor((y - top) / pitch)];
      const place = row * perRow + column;
      return column >= 0 && column < perRow && row >= 0 && place < count ? place : null;
    },
  };
}

/** @param {number} width @param {number} size */
const perRowOf = (width, size) => Math.max(1, Math.floor((width + GAP) / (size + GAP)));

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {number} width
 * @param {import("./columns.js").Scene} scene
 */
export function paint(draw, width, scene) {
  const { replicas, limit, frame } = scene;
  const colours = theme();
  const { perRow, pitch, size, top, skyline } = layout(width, replicas.length, scene.tall);
  paintSkyline(draw, width, skyline, scene);
  // A cell is full at the limit; without one at that of the fleet beside it, or else at the most that anybody has.
  const full = limit ?? frame.limit ?? frame.rifMost;
  const legend = limit === null ? `Each replica: full with ${full} in flight${frame.limit === null ? "" : ", the limit of the other side"}` : "Each replica: how much of its room below the limit is taken; full and bright: hot";
  label(draw, legend, 0, HEADING + skyline + 15, colours.soft);
  replicas.forEach((replica, place) => {
    const [x, y] = [(place % perRow) * pitch, top + Math.floor(place / perRow) * pitch];
    const { out, sign } = stateOf(replica.state);
    const troubled = troubleText(replica.trouble) !== "";
    const part = full > 0 ? Math.min(1, replica.rif / full) : 1;
    draw.fillStyle = colours.well;
    draw.fillRect(x, y, size, size);
    draw.fillStyle = colourOf(replica);
    draw.globalAlpha = out ? 0.35 : replica.hot || (limit === null && part === 1) ? 1 : 0.75;
    const height = Math.round(part * size);
    draw.fillRect(x, y + size - height, size, height);
    draw.globalAlpha = 1;
    if (out || troubled) frameCell(draw, x, y, size, colours.alarm, 1.5);
    const mark = sign || (troubled ? "▲" : "");
    if (mark && size >= 12) label(draw, mark, x + size / 2, y + size / 2 + 0.5, out || troubled ? colours.alarm : colours.ink, "center");
    if (replica.index === scene.pointed || replica.index === scene.chosen) frameCell(draw, x - 1, y - 1, size + 2, colours.ink, 2);
  });
}

/** @param {import("./model.js").Replica} replica */
function colourOf(replica) {
  const colours = theme();
  return stateOf(replica.state).out || replica.hot === null ? colours.second : replica.hot ? colours.hot : colours.cold;
}

/** @param {CanvasRenderingContext2D} draw @param {number} x @param {number} y @param {number} size @param {string} colour @param {number} width */
function frameCell(draw, x, y, size, colour, width) {
  draw.strokeStyle = colour;
  draw.lineWidth = width;
  draw.strokeRect(x + width / 2, y + width / 2, size - width, size - width);
  draw.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {number} width
 * @param {number} height
 * @param {import("./columns.js").Scene} scene
 */
function paintSkyline(draw, width, height, scene) {
  const { limit, frame } = scene;
  const colours = theme();
  const base = HEADING + height;
  const rif = rootScale(frame.rifMost, height);
  const sorted = scene.replicas.slice().sort((a, b) => b.rif - a.rif || a.index - b.index);
  const hot = sorted.filter((replica) => replica.hot).length;
  const most = `Requests in flight, the most first: up to ${count(sorted[0]?.rif ?? 0)}`;
  const text = limit === null ? most : `${most}; ${count(hot)} of ${count(sorted.length)} hot, from the limit of ${limit} on`;
  label(draw, text, 0, 9, colours.soft);
  if (limit !== null) {
    draw.fillStyle = colours.room;
    draw.fillRect(0, base - rif(limit), width, rif(limit));
  }
  const pitch = width / Math.max(sorted.length, 1);
  // Neighbours of one colour as one shape: a thousand hair lines would blur.
  let [from, colour] = [0, ""];
  const flush = (/** @type {number} */ to) => {
    if (to <= from) return;
    draw.fillStyle = colour;
    draw.beginPath();
    draw.moveTo(from * pitch, base);
    for (let place = from; place < to; place++) {
      draw.lineTo(place * pitch, base - rif(sorted[place].rif));
      draw.lineTo((place + 1) * pitch, base - rif(sorted[place].rif));
    }
    draw.lineTo(to * pitch, base);
    draw.fill();
    from = to;
  };
  sorted.forEach((replica, place) => {
    const now = colourOf(replica);
    if (now !== colour) {
      flush(place);
      colour = now;
    }
  });
  flush(sorted.length);
  level(draw, 0, base, width, colours.line);
  if (limit === null) return;
  draw.strokeStyle = colours.ink;
  draw.setLineDash([5, 3]);
  draw.beginPath();
  draw.moveTo(0, Math.round(base - rif(limit)) + 0.5);
  draw.lineTo(width, Math.round(base - rif(limit)) + 0.5);
  draw.stroke();
  draw.setLineDash([]);
}
