// Canvases that are sharp on every screen, and the theme's colours for them.

/** @type {Record<string, string> | null} */
let colours = null;

const NAMES = ["ground", "card", "ink", "soft", "line", "well", "room", "cold", "hot", "hot-ground", "alarm", "alarm-ground", "first", "second"];

/** The colours of the theme in use, read once. @returns {Record<string, string>} */
export function theme() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return colours;
}

/** Reads the theme again after it has changed. */
export function forgetTheme() {
  colours = null;
}

export const FONT = '11px -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/**
 * Clears a canvas, resizes it to its size on the page, and returns its context, in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @returns {CanvasRenderingContext2D | null} `null` while it is hidden
 */
export function begin(canvas, width, height) {
  if (width < 1 || height < 1) return null;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const draw = canvas.getContext("2d");
  if (!draw) return null;
  draw.setTransform(scale, 0, 0, scale, 0, 0);
  draw.clearRect(0, 0, width, height);
  draw.font = FONT;
  draw.lineWidth = 1;
  draw.globalAlpha = 1;
  draw.setLineDash([]);
  return draw;
}

/**
 * Draws a sharp horizontal line.
 * @param {CanvasRenderingContext2D} draw
 * @param {number} x
 * @param {number} y
 * @param {number} length
 * @param {string} colour
 */
export function level(draw, x, y, length, colour) {
  draw.fillStyle = colour;
  draw.fillRect(x, Math.round(y), length, 1);
}

/**
 * @param {CanvasRenderingContext2D} draw
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {string} colour
 * @param {CanvasTextAlign} [align]
 * @param {CanvasTextBaseline} [baseline]
 */
export function label(draw, text, x, y, colour, align = "left", baseline = "middle") {
  draw.fillStyle = colour;
  draw.textAlign = align;
  draw.textBaseline = baseline;
  draw.fillText(text, x, y);
}

/**
 * Cuts a text to the given width.
 * @param {CanvasRenderingContext2D} draw
 * @param {string} text
 * @param {number} width
 */
export function fit(draw, text, width) {
  if (draw.measureText(text).width <= width) return text;
  let end = text.length - 1;
  while (end > 1 && draw.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}
