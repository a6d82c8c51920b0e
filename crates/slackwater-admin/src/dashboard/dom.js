// Elements, made and changed in one way: text goes in as text, and nothing is written that stands
// there already.

/** @type {WeakMap<Element, number>} */
const widths = new WeakMap();
let whenWider = () => {};
const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) widths.set(target, contentRect.width);
  whenWider();
});

/** @param {() => void} act when an element whose width was asked for has another one */
export function onWidth(act) {
  whenWider = act;
}

/** The width inside an element, which is measured once and then followed: to measure while writing lays the page out each time. @param {Element} node */
export function widthOf(node) {
  const known = widths.get(node);
  if (known !== undefined) return known;
  widths.set(node, node.clientWidth);
  observer.observe(node);
  return node.clientWidth;
}

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * An element with a class and text or children.
 * @param {string} tag
 * @param {string} [kind] its class
 * @param {...(string | Node)} content
 * @returns {any}
 */
export function element(tag, kind = "", ...content) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...content);
  return made;
}

/** @param {Element} node @param {Record<string, string | null>} attributes `null` takes one away */
export function attributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  return node;
}

/** @param {Element} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** @param {any} node @param {boolean} shown */
export function setShown(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/**
 * Makes a list of children fit a list of things: made when there are too few, taken away when too many, then filled.
 * @template T
 * @param {Element} parent
 * @param {T[]} things
 * @param {() => any} make
 * @param {(child: any, thing: T, index: number) => void} fill
 */
export function fillList(parent, things, make, fill) {
  while (parent.children.length > things.length) parent.lastElementChild?.remove();
  while (parent.children.length < things.length) parent.append(make());
  things.forEach((thing, index) => fill(parent.children[index], thing, index));
}

/** @param {string} text @param {string} kind @param {() => void} act @returns {HTMLButtonElement} */
export function button(text, kind, act) {
  const made = element("button", kind, text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/**
 * Rows with a button each, of which the tabulator comes by one: arrow keys go on from there. There are many, and they come
 * and go.
 * @param {HTMLElement} body of the table
 * @returns {(focus: boolean) => void} to be called when the rows are others; whether the focus was at one that has gone
 */
export function rove(body) {
  let place = 0;
  const buttons = () => /** @type {HTMLButtonElement[]} */ ([...body.querySelectorAll("button")]);
  /** @param {boolean} focus */
  const settle = (focus) => {
    const all = buttons();
    place = Math.max(0, Math.min(place, all.length - 1));
    all.forEach((one, i) => attributes(one, { tabindex: i === place ? "0" : "-1" }));
    if (focus) all[place]?.focus();
  };
  body.addEventListener("focusin", (event) => {
    place = Math.max(0, buttons().indexOf(/** @type {HTMLButtonElement} */ (event.target)));
    settle(false);
  });
  body.addEventListener("keydown", (event) => {
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    place = Math.max(0, Math.min(place + steps[event.key], buttons().length - 1));
    settle(true);
    event.preventDefault();
  });
  return settle;
}

/**
 * A table's row of cells, the first its header.
 * @param {string} first
 * @param {string[]} rest
 */
export function row(first, rest) {
  const head = element("th", "", first);
  head.scope = "row";
  return element("tr", "", head, ...rest.map((text) => element("td", "", text)));
}

/** @param {string[]} names */
export function headRow(names) {
  const cells = names.map((name) => {
    // A column without a name has no header that could be read.
    if (!name) return element("td");
    const cell = element("th", "", name);
    cell.scope = "col";
    return cell;
  });
  return element("thead", "", element("tr", "", ...cells));
}

/** What a path of the process answers; none where it does not, or with an error. @param {string} path @returns {Promise<any>} */
export async function fetchJson(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}
