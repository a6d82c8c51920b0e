// What is pointed at and chosen on the page, the same for all of its pictures, and who is called
// when it changes.

/** @typedef {{pointed: number | null, chosen: {service: number, replica: number} | null, sort: string, filter: string, table: boolean, service: number, windowMs: number}} Shared */

/** @type {Shared} */
export const shared = { pointed: null, chosen: null, sort: "given", filter: "", table: false, service: 0, windowMs: 300_000 };

/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {() => void} listener */
export const onShared = (listener) => listeners.add(listener);

/** @param {Partial<Shared>} change */
export function share(change) {
  const keys = /** @type {(keyof Shared)[]} */ (Object.keys(change));
  if (keys.every((key) => shared[key] === change[key])) return;
  Object.assign(shared, change);
  for (const listener of listeners) listener();
}
