/**
 * Storage of the key pair and the store's state in a browser's IndexedDB.
 *
 * Several pages and a service worker may use it at the same time. Each change is one transaction under a Web Lock. An
 * app with several customers gives each its own owner, because a key pair for all would link the customers.
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
 * @param {string} [name] of the database
 * @param {string} [owner] separates several phones in one database
 * @returns {Promise<{device: DeviceKey, store: Store}>}
 */
export async function openPhone(name = NAME, owner = '') {
  const shelf = new Shelf(await openDatabase(name), owner);
  const device = await shelf.locked(() => openDevice(shelf));
  return { device, store: new Store(new DatabaseRecords(shelf)) };
}

/**
 * Remove the key and the state: the server has removed the phone, or another user signs in. The next `openPhone`
 * creates another key.
 * @param {string} [name] of the database
 * @param {string} [owner]
 */
export async function discardPhone(name = NAME, owner = '') {
  const shelf = new Shelf(await openDatabase(name), owner);
  await shelf.locked(() => shelf.change((records) => {
    records.delete(owner + DEVICE);
    records.delete(owner + STATE);
  }));
}

/** The records of one owner in a database. */
export class Shelf {
  #database;

  /**
   * @param {IDBDatabase} database
   * @param {string} owner
   */
  constructor(database, owner) {
    this.#database = database;
    this.owner = owner;
  }

  /**
   * Run the work in one page or worker at a time.
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  locked(work) {
    const lock = this.#database.name + this.owner;
    return /** @type {Promise<any>} */ (navigator.locks.request(lock, work)); // resolves to the result of `work`
  }

  /**
   * @param {string} record
   * @returns {Promise<any>}
   */
  get(record) {
    return result(this.#database.transaction(SHELF).objectStore(SHELF).get(this.owner + record));
  }

  /**
   * One transaction, which is on the disk when the promise is fulfilled, so that a sent counter is never lost.
   * @param {(records: IDBObjectStore) => void} work
   * @returns {Promise<void>}
   */
  change(work) {
    const transaction = this.#database.transaction(SHELF, 'readwrite', { durability: 'strict' });
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
      work(transaction.objectStore(SHELF));
    });
  }

  /**
   * Read, edit and save one record in one transaction.
   * @template T
   * @param {string} record
   * @param {(kept: any) => {value: T, next: any}} edit
   * @returns {Promise<T>}
   */
  async edit(record, edit) {
    /** @type {{value?: T, error?: unknown}} */
    const outcome = {};
    await this.change((records) => {
      const reading = records.get(this.owner + record);
      reading.onsuccess = () => {
        try {
          const { value, next } = edit(reading.result);
          outcome.value = value;
          records.put(next, this.owner + record);
        } catch (error) {
          outcome.error = error;
          records.transaction.abort();
        }
      };
    }).catch((error) => {
      throw outcome.error ?? error;
    });
    return /** @type {T} */ (outcome.value);
  }
}

/** The store's state in IndexedDB, for all pages and workers of this origin. */
class DatabaseRecords {
  #shelf;

  /** @param {Shelf} shelf */
  constructor(shelf) {
    this.#shelf = shelf;
  }

  /** @returns {Promise<State>} */
  async read() {
    return toState(await this.#shelf.get(STATE));
  }

  /**
   * @template T
   * @param {(state: State) => T} edit
   * @returns {Promise<T>}
   */
  change(edit) {
    return this.#shelf.locked(() => this.#shelf.edit(STATE, (kept) => {
      const next = toState(kept);
      return { value: edit(next), next };
    }));
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
 * The device's key. Call it under the lock, otherwise two pages that start at once would each create a key.
 * @param {Shelf} shelf
 */
async function openDevice(shelf) {
  const kept = await shelf.get(DEVICE);
  if (kept !== undefined) return DeviceKey.of(kept);
  const device = await DeviceKey.generate();
  await shelf.change((records) => records.put(device.pair, shelf.owner + DEVICE));
  return device;
}

/**
 * @param {string} name
 * @returns {Promise<IDBDatabase>}
 */
export function openDatabase(name) {
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(SHELF);
  return result(request);
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
