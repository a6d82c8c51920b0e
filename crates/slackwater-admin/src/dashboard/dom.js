// Creates and changes elements. Text is inserted only as text, and the page is written only where
// it changes.

/** @type {WeakMap<Element, number>} */
const widths = new WeakMap();
let whenWider = () => {};
const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) widths.set(target, contentRect.width);
  whenWider();
});

/** @param {() => void} act called when an observed element has another width */
export function onWidth(act) {
  whenWider = act;
}

/** The inner width of an element. It is measured once and then observed, because measuring while writing forces a layout each time. @param {Element} node */
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

/** @param {Element} node @param {Record<string, string | null>} attributes `null` removes one */
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
 * Matches a list of children with a list of things: adds or removes children, then fills them.
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
 * Rows with a button each, of which only one is a tab stop. Arrow keys move between them. There are many, and they come
 * and go.
 * @param {HTMLElement} body of the table
 * @returns {(focus: boolean) => void} must be called when the rows change; the argument: whether a removed row had the focus
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
    // A column without a name has no header to read out.
    if (!name) return element("td");
    const cell = element("th", "", name);
    cell.scope = "col";
    return cell;
  });
  return element("thead", "", element("tr", "", ...cells));
}

/** Fetches JSON from a path of the process; `null` if there is no answer, or an error. @param {string} path @returns {Promise<any>} */
export async function fetchJson(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}
