// Lines and stacks over the last minutes.

import { begin, label, level, theme } from "./canvas.js";
import { linearMarks, logMarks, logScale, roundDown, roundUp } from "./scales.js";
import { clock } from "./words.js";
import { shared } from "./shared.js";

const GUTTER = 46;
const RIGHT = 4;
const TOP = 8;
const BOTTOM = 18;
const GAP_MS = 5_000;
/** Shorter windows, while there is little history. */
const WINDOWS_MS = [60_000, 120_000, 300_000];
/** Possible distances between two times on the axis. */
const STEPS_MS = [15_000, 30_000, 60_000, 150_000, 300_000];
/** Smallest distance between two times, in pixels. */
const STEP_MIN = 70;

/**
 * @typedef {object} Line
 * @property {import("./series.js").Series} series
 * @property {string} column
 * @property {string} colour a name of the theme
 * @property {number} [width]
 * @property {number[]} [dash]
 */

/**
 * @typedef {object} Trend
 * @property {Line[]} lines for a stack, from the bottom
 * @property {boolean} [stacked] stacked areas
 * @property {boolean} [log]
 * @property {(value: number) => string} write for the axis
 * @property {number} [least] the axis reaches at least this value
 * @property {{series: import("./series.js").Series, column: string}} [band] tints the background where it is above 0
 * @property {number} now ms
 */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {Trend} trend
 * @param {number | null} [pointed] ms, a moment to mark
 */
export function paint(canvas, width, height, trend, pointed = null) {
  const draw = begin(canvas, width, height);
  if (!draw) return;
  const colours = theme();
  const windowMs = windowOf(trend);
  const [left, right, base] = [GUTTER, width - RIGHT, height - BOTTOM];
  const from = trend.now - windowMs;
  const x = (/** @type {number} */ at) => left + ((at - from) / windowMs) * (right - left);
  const { y, marks } = upward(trend, from, base - TOP, base);
  if (trend.band) paintBand(draw, trend.band, x, [TOP, base], from);
  for (const mark of marks) {
    level(draw, left, y(mark), right - left, colours.line);
    label(draw, trend.write(mark), left - 6, y(mark), colours.soft, "right");
  }
  const step = STEPS_MS.find((step) => (step / windowMs) * (right - left) >= STEP_MIN) ?? windowMs;
  for (let back = 0; back <= windowMs; back += step) {
    const at = x(trend.now - back);
    label(draw, back ? `−${clock(back)}` : "now", at, height - 7, colours.soft, back === 0 ? "right" : back === windowMs ? "left" : "center");
  }
  draw.save();
  draw.beginPath();
  draw.rect(left, TOP - 4, right - left, base - TOP + 6);
  draw.clip();
  if (trend.stacked) paintStack(draw, trend, x, y, from);
  else for (const line of trend.lines) paintLine(draw, line, x, y, from);
  if (pointed !== null) {
    draw.fillStyle = colours.ink;
    draw.fillRect(Math.round(x(pointed)), TOP - 4, 1, base - TOP + 4);
  }
  draw.restore();
}

/**
 * The sample nearest to a position in the chart, and its age.
 * @param {Trend} trend
 * @param {number} width of the picture
 * @param {number} x
 * @returns {{at: number, back: number} | null}
 */
export function momentAt(trend, width, x) {
  const series = trend.lines[0]?.series;
  const windowMs = windowOf(trend);
  const at = trend.now - windowMs + ((x - GUTTER) / Math.max(1, width - RIGHT - GUTTER)) * windowMs;
  if (!series?.length || at < trend.now - windowMs) return null;
  const nearest = series.at.reduce((best, one) => (Math.abs(one - at) < Math.abs(best - at) ? one : best));
  return Math.abs(nearest - at) > GAP_MS ? null : { at: nearest, back: Math.max(0, trend.now - nearest) };
}

/** The shown time: as much as there is history, in whole steps. @param {Trend} trend @returns {number} ms */
export function windowOf(trend) {
  const most = shared.windowMs;
  const first = Math.min(...trend.lines.map(({ series }) => series.at[0] ?? Infinity));
  return WINDOWS_MS.find((ms) => ms < most && trend.now - first <= ms) ?? most;
}

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {{series: import("./series.js").Series, column: string}} band
 * @param {(at: number) => number} x
 * @param {number[]} ends
 * @param {number} from
 */
function paintBand(draw, { series, column }, x, [top, base], from) {
  const values = series.column(column);
  draw.fillStyle = theme()["alarm-ground"];
  for (let i = 1; i < values.length; i++) {
    if (!values[i] || series.at[i] < from || isGap(series, i)) continue;
    const start = x(Math.max(series.at[i - 1], from));
    draw.fillRect(start, top, x(series.at[i]) - start + 0.5, base - top);
  }
}

/** @param {Trend} trend @param {number} from @param {number} length @param {number} base */
function upward(trend, from, length, base) {
  let [least, most] = [Infinity, 0];
  const first = trend.lines[0]?.series;
  if (trend.stacked && first) {
    for (let i = 0; i < first.length; i++) {
      if (first.at[i] < from) continue;
      most = Math.max(most, trend.lines.reduce((sum, line) => sum + (line.series.column(line.column)[i] ?? 0), 0));
    }
  } else {
    for (const { series, column } of trend.lines) {
      const values = series.column(column);
      for (let i = 0; i < values.length; i++) {
        const value = values[i];
        if (value === null || value === undefined || series.at[i] < from) continue;
        most = Math.max(most, value);
        if (value > 0) least = Math.min(least, value);
      }
    }
  }
  most = Math.max(most, trend.least ?? 1);
  if (trend.log) {
    const low = roundDown(Math.max(1, Math.min(least, most / 10)));
    const high = roundUp(most);
    const scale = logScale(low, high, length);
    return { y: (/** @type {number} */ value) => base - scale(value), marks: logMarks(low, high, length, 16) };
  }
  const marks = linearMarks(most);
  const top = Math.max(most * 1.05, marks[marks.length - 1]);
  return { y: (/** @type {number} */ value) => base - (value / top) * length, marks };
}

/** Whether there is a gap before a sample that is too long to draw a line across. @param {import("./series.js").Series} series @param {number} i */
const isGap = (series, i) => i > 0 && series.at[i] - series.at[i - 1] > GAP_MS;

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {Line} line
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} from
 */
function paintLine(draw, line, x, y, from) {
  const { series } = line;
  const values = series.column(line.column);
  draw.strokeStyle = theme()[line.colour];
  draw.lineWidth = line.width ?? 1.6;
  draw.lineJoin = "round";
  draw.setLineDash(line.dash ?? []);
  draw.beginPath();
  let pen = false;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (series.at[i] < from - 2_000) continue;
    if (value === null || isGap(series, i)) pen = false;
    if (value === null) continue;
    if (pen) draw.lineTo(x(series.at[i]), y(value));
    else {
      draw.moveTo(x(series.at[i]), y(value));
      pen = true;
    }
  }
  draw.stroke();
  draw.setLineDash([]);
  draw.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {Trend} trend
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} from
 */
function paintStack(draw, trend, x, y, from) {
  const series = trend.lines[0]?.series;
  if (!series?.length) return;
  let start = Math.max(0, series.at.findIndex((at) => at >= from - 2_000));
  while (start < series.length) {
    let end = start + 1;
    while (end < series.length && !isGap(series, end)) end++;
    paintPiece(draw, trend, x, y, start, end);
    start = end;
  }
}

/**
 * Draws a part of a stack without gaps.
 * @param {CanvasRenderingContext2D} draw
 * @param {Trend} trend
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} start
 * @param {number} end
 */
function paintPiece(draw, trend, x, y, start, end) {
  const sums = new Array(end - start).fill(0);
  for (const { series, column, colour, width } of trend.lines) {
    const values = series.column(column);
    draw.beginPath();
    for (let i = 0; i < sums.length; i++) draw.lineTo(x(series.at[start + i]), y(sums[i]));
    for (let i = sums.length - 1; i >= 0; i--) {
      sums[i] += values[start + i] ?? 0;
      draw.lineTo(x(series.at[start + i]), y(sums[i]));
    }
    draw.closePath();
    draw.fillStyle = theme()[colour];
    draw.globalAlpha = width ?? 1;
    draw.fill();
    draw.globalAlpha = 1;
  }
}
