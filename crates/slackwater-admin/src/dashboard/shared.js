// The selection on the page: what the pointer is over and what is chosen, shared by all charts, and
// the listeners to its changes.

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
