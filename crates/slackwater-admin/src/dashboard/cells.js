// A large fleet: above, all replicas by requests in flight as a skyline against the limit. Below,
// each replica as a cell at a fixed place, with its fill level, its name and number where there is
// room, and a red frame if it takes no requests or fails.

import { label, level, theme } from "./canvas.js";
import { heatColour, limitText } from "./columns.js";
import { rootScale } from "./scales.js";
import { count, stateOf } from "./words.js";
import { troubleText } from "./model.js";

const HEADING = 20;
const SKYLINE = { low: 44, tall: 84 };
const GAP = 2;
const PITCH_MAX = 48;
const CELLS_MAX = { low: 330, tall: 520 };
/** From this width up, a cell shows its name and its number. */
const LABELLED = 30;

/** @param {number} width @param {number} count @param {boolean} tall */
export function layout(width, count, tall) {
  const kind = tall ? "tall" : "low";
  // Cells are as large as the space allows.
  const rowsOf = (/** @type {number} */ perRow) => Math.max(1, Math.ceil(count / perRow));
  let perRow = Math.max(1, Math.ceil(width / PITCH_MAX));
  while (rowsOf(perRow) * Math.round(width / perRow) > CELLS_MAX[kind] && perRow < count) perRow++;
  const pitch = width / perRow;
  const rowPitch = Math.max(1, Math.round(pitch));
  const top = 2 * HEADING + SKYLINE[kind] + 6;
  return {
    height: top + rowsOf(perRow) * rowPitch,
    perRow,
    pitch: rowPitch,
    top,
    skyline: SKYLINE[kind],
    /** A cell's left, top, width and height. @param {number} place @returns {[number, number, number, number]} */
    boxOf(place) {
      const [column, row] = [place % perRow, Math.floor(place / perRow)];
      const left = Math.round(column * pitch);
      return [left, top + row * rowPitch, Math.max(1, Math.round((column + 1) * pitch) - left - GAP), Math.max(1, rowPitch - GAP)];
    },
    /** The middle of a cell, and its top. @param {number} place @returns {[number, number]} */
    pointOf: (place) => [(place % perRow + 0.5) * pitch, top + Math.floor(place / perRow) * rowPitch],
    /** @param {number} x @param {number} y */
    placeAt(x, y) {
      const [column, row] = [Math.floor(x / pitch), Math.floor((y - top) / rowPitch)];
      const place = row * perRow + column;
      return column >= 0 && column < perRow && row >= 0 && place < count ? place : null;
    },
  };
}

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {number} width
 * @param {import("./columns.js").Scene} scene
 */
export function paint(draw, width, scene) {
  const { replicas, limit, frame } = scene;
  const colours = theme();
  const { boxOf, skyline } = layout(width, replicas.length, scene.tall);
  paintSkyline(draw, width, skyline, scene);
  // A cell is full at the limit, or without a limit at the largest value of any replica.
  const full = Math.max(1, limit ?? frame.rifMost);
  // If all replicas report their capacity, a cell is full at the capacity.
  const carried = replicas.length > 0 && replicas.every((replica) => replica.full !== null);
  label(draw, carried ? "Each replica: how much of what it can carry is in flight" : legendText(limit, full), 0, HEADING + skyline + 15, colours.ink);
  replicas.forEach((replica, place) => {
    const [x, y, wide, high] = boxOf(place);
    const { sign } = stateOf(replica.state);
    const troubled = replica.alarming || replica.failures > 0 || troubleText(replica.trouble) !== "";
    const height = Math.round(Math.min(1, carried ? (replica.full ?? 0) : replica.rif / full) * high);
    const isLabelled = wide >= LABELLED && high >= LABELLED;
    draw.fillStyle = colours.well;
    draw.fillRect(x, y, wide, high);
    if (height > 0) {
      draw.fillStyle = heatColour(replica);
      draw.globalAlpha = isLabelled || replica.out ? 0.35 : 0.85;
      draw.fillRect(x, y + high - height, wide, height);
      draw.globalAlpha = 1;
    }
    if (troubled) frameCell(draw, [x, y, wide, high], colours.alarm, isLabelled ? 2 : 1.5);
    const mark = sign || (troubled ? "▲" : "");
    if (isLabelled) {
      // A name that does not fit is left out, because a part of it would be misleading.
      if (draw.measureText(replica.short).width <= wide - 6) label(draw, replica.short, x + 4, y + 9, colours.ink);
      label(draw, mark || count(replica.rif), x + wide - 4, y + high - 9, mark && troubled ? colours.alarm : colours.ink, "right");
    } else if (mark && high >= 12) label(draw, mark, x + wide / 2, y + high / 2 + 0.5, troubled ? colours.alarm : colours.ink, "center");
    if (replica.index === scene.pointed || replica.index === scene.chosen) frameCell(draw, [x - 1, y - 1, wide + 2, high + 2], colours.ink, 2);
  });
}

/** @param {number | null} limit @param {number} full */
function legendText(limit, full) {
  if (limit === null) return `Each replica: requests in flight; full with ${full}`;
  return limit === 0 ? "Each replica: full with 1 in flight" : "Each replica: how much of its room below the limit is taken; full: hot";
}

/** @param {CanvasRenderingContext2D} draw @param {[number, number, number, number]} box @param {string} colour @param {number} line its width */
function frameCell(draw, [x, y, wide, high], colour, line) {
  draw.strokeStyle = colour;
  draw.lineWidth = line;
  draw.strokeRect(x + line / 2, y + line / 2, wide - line, high - line);
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
  const text = limit === null ? most : limit === 0 ? `${most}; ${limitText(limit)}` : `${most}; ${count(hot)} of ${count(sorted.length)} hot, from the limit of ${limit} on`;
  label(draw, text, 0, 9, colours.ink);
  if (frame.ghost) {
    const other = `${frame.ghost.rif > frame.rifMost ? "↑" : "┄"} ${frame.ghost.name}: up to ${count(frame.ghost.rif)}`;
    const fits = draw.measureText(text).width + draw.measureText(other).width + 20 < width;
    if (fits) label(draw, other, width, 9, colours.soft, "right");
    const y = Math.round(base - rif(frame.ghost.rif)) + 0.5;
    draw.strokeStyle = colours.soft;
    draw.setLineDash([2, 4]);
    draw.beginPath();
    draw.moveTo(0, y);
    draw.lineTo(width, y);
    draw.stroke();
    draw.setLineDash([]);
  }
  if (limit !== null) {
    draw.fillStyle = colours.room;
    draw.fillRect(0, base - rif(limit), width, rif(limit));
  }
  const pitch = width / Math.max(sorted.length, 1);
  // Neighbours of the same colour become one shape, because a thousand hairlines would blur.
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
    const now = heatColour(replica);
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
