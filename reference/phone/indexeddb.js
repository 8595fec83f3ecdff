/**
 * In charge of IndexedDB as the place where a browser keeps the key pair and the state of the store.
 */

import { DeviceKey } from './keys.js';
import { emptyState, Store } from './store.js';

const NAME = 'keyrack-phone';
const SHELF = 'kept';
const DEVICE = 'device';
const STATE = 'state';

/**
 * The phone's key and store, as they were kept; made where there are none.
 * @returns {Promise<{device: DeviceKey, store: Store}>}
 */
export async function openPhone() {
  const database = await openDatabase();
  const kept = await get(database, DEVICE);
  const device = kept === undefined ? await DeviceKey.generate() : await DeviceKey.of(kept);
  if (kept === undefined) await put(database, DEVICE, device.pair);
  const state = (await get(database, STATE)) ?? emptyState();
  return { device, store: new Store(state, (changed) => put(database, STATE, changed)) };
}

/** @returns {Promise<IDBDatabase>} */
function openDatabase() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(SHELF);
  return result(request);
}

/**
 * @param {IDBDatabase} database
 * @param {string} name
 * @returns {Promise<any>}
 */
function get(database, name) {
  return result(database.transaction(SHELF).objectStore(SHELF).get(name));
}

/**
 * Durable when the promise is fulfilled: a counter that was sent is kept.
 * @param {IDBDatabase} database
 * @param {string} name
 * @param {unknown} value
 * @returns {Promise<void>}
 */
function put(database, name, value) {
  const transaction = database.transaction(SHELF, 'readwrite', { durability: 'strict' });
  transaction.objectStore(SHELF).put(value, name);
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = () => reject(transaction.error);
  });
}

/**
 * @template T
 * @param {IDBRequest<T>} request
 * @returns {Promise<T>}
 */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
