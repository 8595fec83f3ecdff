/**
 * Storage of the key pair and the store's state in a browser's IndexedDB.
 *
 * Several pages and a service worker may use it at the same time. Each change is one transaction under a Web Lock.
 */

import { DeviceKey } from './keys.js';
import { emptyState, Store } from './store.js';

/** @typedef {import('./store.js').State} State */

const NAME = 'keyrack-phone';
const SHELF = 'kept';
const DEVICE = 'device';
const STATE = 'state';

/**
 * The stored key and state of the phone; created if there are none.
 * @returns {Promise<{device: DeviceKey, store: Store}>}
 */
export async function openPhone() {
  const database = await openDatabase();
  const device = await locked(() => openDevice(database));
  return { device, store: new Store(new DatabaseRecords(database)) };
}

/** The store's state in IndexedDB, for all pages and workers of this origin. */
class DatabaseRecords {
  #database;

  /** @param {IDBDatabase} database */
  constructor(database) {
    this.#database = database;
  }

  /** @returns {Promise<State>} */
  async read() {
    return toState(await get(this.#database, STATE));
  }

  /**
   * @template T
   * @param {(state: State) => T} edit
   * @returns {Promise<T>}
   */
  change(edit) {
    return locked(() => changed(this.#database, edit));
  }
}

/**
 * The stored state. An older version of the app may have stored it with fewer properties.
 * @param {Partial<State> | undefined} kept
 * @returns {State}
 */
function toState(kept) {
  return { ...emptyState(), ...kept };
}

/**
 * Run the work in one page or worker at a time.
 * @template T
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
function locked(work) {
  return /** @type {Promise<any>} */ (navigator.locks.request(NAME, work)); // resolves to the result of `work`
}

/**
 * The device's key. Call it under the lock, otherwise two pages that start at once would each create a key.
 * @param {IDBDatabase} database
 */
async function openDevice(database) {
  const kept = await get(database, DEVICE);
  if (kept !== undefined) return DeviceKey.of(kept);
  const device = await DeviceKey.generate();
  await changing(database, (shelf) => shelf.put(device.pair, DEVICE));
  return device;
}

/**
 * Read, edit and save the state in one transaction.
 * @template T
 * @param {IDBDatabase} database
 * @param {(state: State) => T} edit
 * @returns {Promise<T>}
 */
async function changed(database, edit) {
  /** @type {{value?: T, error?: unknown}} */
  const outcome = {};
  await changing(database, (shelf) => {
    const reading = shelf.get(STATE);
    reading.onsuccess = () => {
      const state = toState(reading.result);
      try {
        outcome.value = edit(state);
        shelf.put(state, STATE);
      } catch (error) {
        outcome.error = error;
        shelf.transaction.abort();
      }
    };
  }).catch((error) => {
    throw outcome.error ?? error;
  });
  return /** @type {T} */ (outcome.value);
}

/**
 * One transaction, which is on the disk when the promise is fulfilled, so that a sent counter is never lost.
 * @param {IDBDatabase} database
 * @param {(shelf: IDBObjectStore) => void} work
 * @returns {Promise<void>}
 */
function changing(database, work) {
  const transaction = database.transaction(SHELF, 'readwrite', { durability: 'strict' });
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
    work(transaction.objectStore(SHELF));
  });
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
