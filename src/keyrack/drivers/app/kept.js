/**
 * What the app keeps for a start without a network: the session's answer, the cars, and how each phone is registered.
 */

import { openDatabase, Shelf } from './phone/indexeddb.js';

/**
 * @typedef {import('./app.js').Session} Session
 * @typedef {import('./app.js').Settings} Settings
 *
 * @typedef {Object} Car one row of `GET /drive/api/cars`
 * @property {number} assignmentId
 * @property {number} customerId
 * @property {number} carId
 * @property {string} name
 * @property {string | null} licensePlate
 * @property {string | null} brand
 * @property {string | null} model
 * @property {string} start
 * @property {string | null} end
 * @property {'now' | 'next'} state
 * @property {boolean} isTaken whether another driver has the car now
 * @property {string | null} takenUntil null without an end
 * @property {{latitude: number, longitude: number, time: string} | null} place
 * @property {number | null} productId of the box; null if the car has none
 * @property {string | null} boxName
 * @property {string | null} opensUntil
 * @property {string | null} fleetPhone
 *
 * @typedef {'ready' | 'unapproved' | 'removed' | 'full'} Registration `removed` by a manager or as lost; `full` if the
 *   user has too many phones
 *
 * @typedef {Object} Kept
 * @property {Session | null} session of the last answer
 * @property {Settings | null} settings
 * @property {Car[]} cars
 * @property {Car[]} cancelled whose booking the fleet has ended before its time
 * @property {number[]} ended assignments that the driver has ended
 * @property {boolean} hasDeclinedPasskey whether the driver wants no passkey
 * @property {number} carsAt when they were read, in milliseconds since 1970; 0 for never
 * @property {number} clockOffset of the server to this device, in milliseconds
 * @property {Record<string, {id: string, registration: Registration}>} phones by the ids of customers
 */

export const DATABASE = 'keyrack-drive';
const RECORD = 'app';

/** @returns {Kept} */
function nothing() {
  const lists = { cars: [], cancelled: [], ended: [] };
  return { session: null, settings: null, carsAt: 0, clockOffset: 0, phones: {}, hasDeclinedPasskey: false, ...lists };
}

/** @returns {Promise<Kept>} */
export async function readKept() {
  return { ...nothing(), ...(await (await shelf()).get(RECORD)) };
}

/**
 * Change a part of it in one transaction.
 * @param {(kept: Kept) => Partial<Kept>} changes
 * @returns {Promise<Kept>} the whole
 */
export async function keep(changes) {
  return (await shelf()).edit(RECORD, (kept) => {
    const before = { ...nothing(), ...kept };
    const value = { ...before, ...changes(before) };
    return { value, next: value };
  });
}

/** Remove everything, keys too: another user signs in, or this one signs out. */
export async function removeAll() {
  await (await shelf()).change((records) => records.clear());
}

/** @type {Promise<Shelf> | null} */
let opened = null;

function shelf() {
  opened ??= openDatabase(DATABASE).then((database) => new Shelf(database, ''));
  return opened;
}
