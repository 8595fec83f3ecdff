/**
 * In charge of what the phone keeps: keys, what boxes are to be brought, and entries to bring home.
 *
 * All of it is one plain object (`state`), which IndexedDB takes as it is; `save` is called after each change, and what
 * comes next waits for it. A counter that was not kept would be refused by the box when it comes again.
 */

import { equal } from './bytes.js';
import { encode } from './cbor.js';
import { Refused } from './codes.js';
import { read } from './cose.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./cbor.js').ItemMap} ItemMap
 * @typedef {import('./link.js').Challenge} Challenge
 * @typedef {import('./server.js').KeysAnswer} KeysAnswer
 *
 * @typedef {Object} HeldKey
 * @property {number} assignmentId
 * @property {number} carId
 * @property {number} productId
 * @property {string} box its name
 * @property {number} issued in milliseconds since 1970, as all times here
 * @property {number} begins
 * @property {number} expires
 * @property {number} renewAfter
 * @property {Bytes} message
 *
 * @typedef {Object} HeldList
 * @property {string} box
 * @property {number} generation
 * @property {number} iat in seconds, as in the list
 * @property {Bytes} message
 *
 * @typedef {Object} HeldReceipt
 * @property {string} box
 * @property {number} number up to which the server has the log
 * @property {Bytes} message
 *
 * @typedef {Object} HeldEntry
 * @property {string} box
 * @property {number} number
 * @property {Bytes} message
 *
 * @typedef {Object} State
 * @property {number} metServer when the phone has last met the server; 0 for never
 * @property {string | null} etag of what the server has said then
 * @property {{sequence: number, message: Bytes} | null} keySet
 * @property {HeldKey[]} keys
 * @property {Array<{assignmentId: number, reason: string}>} withheld assignments that get no new key, and why
 * @property {HeldList[]} lists
 * @property {HeldReceipt[]} receipts
 * @property {HeldEntry[]} entries
 * @property {number} counter the last one
 */

/** @returns {State} */
export function emptyState() {
  const lists = { keys: [], withheld: [], lists: [], receipts: [], entries: [] };
  return { metServer: 0, etag: null, keySet: null, counter: 0, ...lists };
}

export class Store {
  #save;
  #now;

  /**
   * @param {State} state
   * @param {(state: State) => Promise<void>} save
   * @param {() => number} now in milliseconds since 1970
   */
  constructor(state = emptyState(), save = async () => {}, now = Date.now) {
    this.state = state;
    this.#save = save;
    this.#now = now;
  }

  /**
   * Take what the server answers to `GET /sdk/keys`. If any of it is not what it should be, all stays as it was.
   * @param {KeysAnswer} answer
   * @param {string | null} etag
   * @param {ItemMap} publicKey the phone's
   */
  async takeKeys(answer, etag, publicKey) {
    const keySet = toKeySet(answer.keySet);
    const keys = answer.keys.map((key) => toKey(key, publicKey));
    const lists = answer.boxes.flatMap(({ statusLists }) => statusLists.map(toList));
    const receipts = answer.boxes.flatMap(({ receipt }) => (receipt === null ? [] : [toReceipt(receipt)]));
    Object.assign(this.state, { keySet, keys, lists, withheld: answer.withheld });
    this.#takeReceipts(receipts);
    await this.haveMet(etag);
  }

  /**
   * The phone has met the server, which has nothing newer than this.
   * @param {string | null} etag
   */
  async haveMet(etag) {
    Object.assign(this.state, { etag, metServer: this.#now() });
    await this.#save(this.state);
  }

  /**
   * The keys for which an app must warn its user: there have been newer ones for a while, and the phone has not met the
   * server since. Some time later they open nothing any more.
   */
  get overdue() {
    const { keys, metServer } = this.state;
    return keys.filter(({ renewAfter }) => renewAfter <= this.#now() && metServer < renewAfter);
  }

  /**
   * The key for a box: one that holds now, else the one that ends last: the clock of the box decides, not ours.
   * @param {string} box
   * @returns {HeldKey | null}
   */
  keyFor(box) {
    const now = this.#now();
    const holds = (/** @type {HeldKey} */ key) => Number(key.begins <= now && now < key.expires);
    const keys = this.state.keys.filter((key) => key.box === box);
    keys.sort((one, other) => holds(other) - holds(one) || other.expires - one.expires);
    return keys[0] ?? null;
  }

  /**
   * What the box does not have yet, in the order in which it is to be brought: the key set, lists, a receipt. Of two
   * lists the newest one comes last, so that a box which has it has the one before it, too.
   * @param {Challenge} challenge
   * @returns {Bytes[]}
   */
  artefactsFor({ name, sequence, generation, listIat, first, next }) {
    const { keySet, lists, receipts } = this.state;
    const newer = lists.filter(
      (list) => list.box === name
        && (list.generation > generation || (list.generation >= generation - 1 && list.iat > listIat)),
    );
    newer.sort((one, other) => one.generation - other.generation);
    const due = receipts.filter(({ box, number }) => box === name && number >= first && number < next);
    const isOurs = lists.some(({ box }) => box === name);
    const sets = isOurs && keySet !== null && keySet.sequence > sequence ? [keySet] : [];
    return [...sets, ...newer, ...due].map(({ message }) => message);
  }

  /** A counter that is higher than each before, also where the app was installed anew. */
  async nextCounter() {
    this.state.counter = Math.max(this.state.counter + 1, this.#now());
    await this.#save(this.state);
    return this.state.counter;
  }

  /** @param {HeldEntry} entry */
  async keepEntry(entry) {
    if (this.state.entries.some((held) => equal(held.message, entry.message))) return;
    this.state.entries.push(entry);
    await this.#save(this.state);
  }

  /**
   * The number of the first entry that neither the phone nor, as far as it knows, the server has.
   * @param {string} box
   * @param {number} first the lowest one that the box holds
   */
  firstMissing(box, first) {
    const receipt = this.state.receipts.find((held) => held.box === box);
    const held = new Set(this.state.entries.filter((entry) => entry.box === box).map(({ number }) => number));
    let number = Math.max(first, receipt === undefined ? 1 : receipt.number + 1);
    while (held.has(number)) number += 1;
    return number;
  }

  /**
   * The server has dealt with these entries: it has them, or never takes them.
   * @param {HeldEntry[]} entries
   * @param {Bytes[]} receipts
   */
  async broughtHome(entries, receipts) {
    this.state.entries = this.state.entries.filter((held) => !entries.includes(held));
    this.#takeReceipts(receipts.map(toReceipt));
    await this.#save(this.state);
  }

  /**
   * Of each box the highest one.
   * @param {HeldReceipt[]} receipts
   */
  #takeReceipts(receipts) {
    for (const receipt of receipts) {
      const known = this.state.receipts.find(({ box }) => box === receipt.box);
      if (known === undefined) this.state.receipts.push(receipt);
      else if (known.number < receipt.number) Object.assign(known, receipt);
    }
  }
}

/**
 * @param {Bytes | null} message none where the customer has no authority
 * @returns {State['keySet']}
 */
function toKeySet(message) {
  if (message === null) return null;
  return { sequence: read(message, 'keyset').claims.sequence, message };
}

/**
 * @param {KeysAnswer['keys'][number]} key
 * @param {ItemMap} publicKey
 * @returns {HeldKey}
 */
function toKey({ key: message, issued, begins, expires, renewAfter, ...names }, publicKey) {
  const { cnf } = read(message, 'key').claims;
  if (!equal(encode(cnf.get(1)), encode(publicKey))) throw new Refused('other-key', 'the key of another phone');
  const times = Object.entries({ issued, begins, expires, renewAfter }).map(([name, text]) => [name, Date.parse(text)]);
  return { ...names, ...Object.fromEntries(times), message };
}

/**
 * @param {Bytes} message
 * @returns {HeldList}
 */
function toList(message) {
  const { aud, generation, iat } = read(message, 'statuslist').claims;
  return { box: aud, generation, iat, message };
}

/**
 * @param {Bytes} message
 * @returns {HeldReceipt}
 */
function toReceipt(message) {
  const { aud, upto } = read(message, 'receipt').claims;
  return { box: aud, number: upto[0], message };
}
