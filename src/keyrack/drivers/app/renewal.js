/**
 * The contact with the server that pages and the service worker have in common: cars, logs and keys.
 */

import { call } from './api.js';
import { keep, readKept } from './kept.js';
import { meetServer } from './phones.js';

/** @typedef {import('./kept.js').Car} Car */

const MOST_CANCELLED = 5;

/**
 * Read the cars, and keep them. A booking that has vanished before its end was ended by the fleet.
 * @returns {Promise<void>}
 */
export async function readCars() {
  /** @type {Car[]} */
  const cars = await call('GET', '/drive/api/cars');
  const present = new Set(cars.map(({ assignmentId }) => assignmentId));
  await keep(({ clockOffset, ended, cancelled, cars: before }) => {
    const now = Date.now() + clockOffset;
    const isGone = (/** @type {Car} */ { assignmentId, end }) => !present.has(assignmentId)
      && !ended.includes(assignmentId) && (end === null || Date.parse(end) > now);
    return {
      cars,
      carsAt: now,
      cancelled: [...cancelled, ...before].filter(isGone).slice(-MOST_CANCELLED),
      ended: ended.filter((id) => present.has(id)),
    };
  });
}

/** Renew everything without a page. */
export async function renew() {
  const { session } = await readKept();
  if (session === null) return;
  await readCars();
  await meetServer(session.customers.map(({ id }) => id));
}
