/**
 * The phone's stored state: keys, artefacts for boxes, and log entries for the server.
 *
 * The state is one plain object, which IndexedDB stores unchanged. Two pages and a service worker may use it at the
 * same time, so no code caches it: each query reads it, and each change is one transaction that reads, changes and
 * saves it. A method's promise is fulfilled when the change is on the disk. If a sent counter were lost, the phone
 * would use it again, and the box would reject it.
 */

import { equal, toBase64url } from './bytes.js';
import { decode, encode } from './cbor.js';
import { Refused } from './codes.js';
import { kidOf, read } from './cose.js';
import { isPublicKey } from './messages.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./cbor.js').ItemMap} ItemMap
 * @typedef {import('./link.js').Challenge} Challenge
 * @typedef {import('./server.js').KeysAnswer} KeysAnswer
 * @typedef {import('./server.js').DayKey} DayKey
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
 * @typedef {Object} HeldBox a box of which the phone has a list
 * @property {string} name
 * @property {ItemMap | null} publicKey verifies its entries; null if the server did not send it
 * @property {DayKey[]} names the keys of its advertised names, for the days on which a key of the phone may open
 *
 * @typedef {Object} HeldRoot a new root
 * @property {number} sequence
 * @property {Bytes} signer the kid of the previous root
 * @property {Bytes} kid its own
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
 * @property {number} number the last one that the server has of the log
 * @property {number} iat in seconds, as in the receipt
 * @property {Bytes} message
 *
 * @typedef {Object} HeldEntry
 * @property {string} box
 * @property {number} number
 * @property {Bytes} message
 *
 * @typedef {Object} State
 * @property {number} metServer time of the last contact with the server; 0 for never
 * @property {string | null} etag of the server's last response
 * @property {{sequence: number, message: Bytes} | null} keySet
 * @property {HeldRoot[]} roots in the order of their sequences
 * @property {HeldBox[]} boxes
 * @property {HeldKey[]} keys
 * @property {Array<{assignmentId: number, reason: string}>} withheld assignments that get no new key, and why
 * @property {HeldList[]} lists
 * @property {HeldReceipt[]} receipts
 * @property {HeldEntry[]} entries
 * @property {number} counter the last one used
 *
 * @typedef {Object} Records the storage of the state
 * @property {() => Promise<State>} read
 * @property {<T>(edit: (state: State) => T) => Promise<T>} change run `edit` in a transaction: no other code changes the
 *   state meanwhile, and the state is unchanged if `edit` throws
 */

const MOST_ENTRIES = 1_100; // of one box, whose log has 1,024
const DAY_KEY_BYTES = 16;

/** @returns {State} */
export function emptyState() {
  const lists = { roots: [], boxes: [], keys: [], withheld: [], lists: [], receipts: [], entries: [] };
  return { metServer: 0, etag: null, keySet: null, counter: 0, ...lists };
}

/** Records in memory: for tests, and for apps that store the state in another way. */
export class MemoryRecords {
  #state;

  /** @param {State} state */
  constructor(state = emptyState()) {
    this.#state = state;
  }

  async read() {
    return structuredClone(this.#state);
  }

  /**
   * @template T
   * @param {(state: State) => T} edit
   */
  async change(edit) {
    const state = structuredClone(this.#state);
    const result = edit(state);
    this.#state = state;
    return result;
  }
}

export class Store {
  #records;

  /**
   * @param {Records} records
   * @param {() => number} now in milliseconds since 1970
   */
  constructor(records = new MemoryRecords(), now = Date.now) {
    this.#records = records;
    this.now = now;
  }

  /**
   * A copy of the current state.
   * @returns {Promise<State>}
   */
  state() {
    return this.#records.read();
  }

  /**
   * Store a response of `GET /sdk/keys`. If a part of it is invalid, the state is unchanged. Responses may arrive in
   * the wrong order, so an older key set or root never replaces a newer one.
   * @param {KeysAnswer} answer
   * @param {string | null} etag
   * @param {ItemMap} publicKey the phone's
   */
  async takeKeys(answer, etag, publicKey) {
    const authority = { keySet: toKeySet(answer.keySet), roots: await toRoots(answer.roots) };
    const boxes = answer.boxes.filter(({ statusLists }) => statusLists.length > 0).map(toBox);
    const keys = answer.keys.map((key) => toKey(key, publicKey));
    const lists = answer.boxes.flatMap(({ statusLists }) => statusLists.map(toList));
    const receipts = answer.boxes.flatMap(({ receipt }) => (receipt === null ? [] : [toReceipt(receipt)]));
    const metServer = this.now();
    await this.#records.change((state) => {
      const isOlder = authority.keySet !== null && newestSequence(authority) < newestSequence(state);
      Object.assign(state, { boxes, keys, lists, withheld: answer.withheld, etag, metServer });
      if (!isOlder) Object.assign(state, authority);
      takeReceipts(state, receipts);
    });
  }

  /** Record a contact with the server, which had nothing newer for the phone. */
  async haveMet() {
    const metServer = this.now();
    await this.#records.change((state) => {
      state.metServer = Math.max(state.metServer, metServer);
    });
  }

  /**
   * The keys for which an app must warn its user: the server has had newer ones for a while, but the phone has had no
   * contact with it since. These keys expire soon.
   * @returns {Promise<HeldKey[]>}
   */
  async overdue() {
    const { keys, metServer } = await this.state();
    return keys.filter(({ renewAfter }) => renewAfter <= this.now() && metServer < renewAfter);
  }

  /**
   * The keys for a box, the best one first: the valid ones, then those that expire last. The box judges by its own
   * clock, so keys that are invalid by the phone's clock are included.
   * @param {string} box
   * @returns {Promise<HeldKey[]>}
   */
  async keysFor(box) {
    const now = this.now();
    const holds = (/** @type {HeldKey} */ key) => Number(key.begins <= now && now < key.expires);
    const keys = (await this.state()).keys.filter((key) => key.box === box);
    return keys.sort((one, other) => holds(other) - holds(one) || other.expires - one.expires);
  }

  /**
   * The box of this name, if the phone has a list of it.
   * @param {string} name
   * @returns {Promise<HeldBox | null>}
   */
  async boxOf(name) {
    const box = (await this.state()).boxes.find((kept) => kept.name === name);
    return box === undefined ? null : { ...box, names: box.names ?? [] }; // an older release kept no names
  }

  /**
   * The keys of the authority that the box lacks, in the order in which it accepts them: the new roots that follow its
   * own root, then the key set.
   * @param {Challenge} challenge
   * @returns {Promise<Bytes[]>}
   */
  async authorityFor({ name, sequence, root }) {
    const { boxes, keySet, roots } = await this.state();
    if (!boxes.some((box) => box.name === name)) return [];
    const newer = (/** @type {{sequence: number}} */ each) => each.sequence > sequence;
    const sets = keySet === null ? [] : [keySet];
    return [...succession(root, roots.filter(newer)), ...sets.filter(newer)].map(({ message }) => message);
  }

  /**
   * The lists and the receipt that the box lacks, in the order in which it accepts them. The newest list comes last, so
   * that a box with the newest list also has the previous one.
   * @param {Challenge} challenge
   * @returns {Promise<Bytes[]>}
   */
  async artefactsFor({ name, generation, listIat, first, next }) {
    const { lists, receipts } = await this.state();
    const newer = lists.filter(
      (list) => list.box === name
        && (list.generation > generation || (list.generation >= generation - 1 && list.iat > listIat)),
    );
    newer.sort((one, other) => one.generation - other.generation);
    const due = receipts.filter(({ box, number }) => box === name && number >= first && number < next);
    return [...newer, ...due].map(({ message }) => message);
  }

  /**
   * A counter that is higher than all earlier ones, also after the app was installed again.
   * @returns {Promise<number>}
   */
  nextCounter() {
    const now = this.now();
    return this.#records.change((state) => {
      state.counter = Math.max(state.counter + 1, now);
      return state.counter;
    });
  }

  /**
   * Store new entries: at most 1,100 of one box, so that no box fills the phone. The oldest are kept, because the box
   * still has its newest entries.
   * @param {string} box
   * @param {HeldEntry[]} entries of this box
   * @returns {Promise<boolean>} whether there is room for another entry
   */
  keepEntries(box, entries) {
    return this.#records.change((state) => {
      const isKept = isAmong(state.entries);
      const room = Math.max(0, MOST_ENTRIES - state.entries.filter((entry) => entry.box === box).length);
      const fresh = entries.filter((entry) => !isKept(entry));
      state.entries.push(...fresh.slice(0, room));
      return fresh.length < room;
    });
  }

  /**
   * The number of the first entry that neither the phone nor, as far as it knows, the server has.
   * @param {string} box
   * @param {number} first the lowest number in the box's log
   * @returns {Promise<number>}
   */
  async firstMissing(box, first) {
    const { receipts, entries } = await this.state();
    const receipt = receipts.find((kept) => kept.box === box);
    const numbers = new Set(entries.filter((entry) => entry.box === box).map(({ number }) => number));
    let number = Math.max(first, receipt === undefined ? 1 : receipt.number + 1);
    while (numbers.has(number)) number += 1;
    return number;
  }

  /**
   * Remove entries that the server has stored or will never accept, and store its receipts.
   * @param {HeldEntry[]} entries
   * @param {Bytes[]} receipts
   */
  async broughtHome(entries, receipts) {
    const newest = receipts.map(toReceipt);
    const isHome = isAmong(entries);
    await this.#records.change((state) => {
      state.entries = state.entries.filter((entry) => !isHome(entry));
      takeReceipts(state, newest);
    });
  }
}

/**
 * Whether an entry is one of these, byte for byte, because each read returns other objects.
 * @param {HeldEntry[]} entries
 * @returns {(entry: HeldEntry) => boolean}
 */
function isAmong(entries) {
  const messages = new Set(entries.map(({ message }) => toBase64url(message)));
  return ({ message }) => messages.has(toBase64url(message));
}

/**
 * The receipt with the highest number of each box, and of two with the same number the later one. A key rotation with
 * `--revoke` signs receipts again, and the box rejects signatures of the previous key.
 * @param {State} state
 * @param {HeldReceipt[]} receipts
 */
function takeReceipts(state, receipts) {
  for (const receipt of receipts) {
    const known = state.receipts.find(({ box }) => box === receipt.box);
    if (known === undefined) state.receipts.push(receipt);
    else if (isLater(receipt, known)) Object.assign(known, receipt);
  }
}

/**
 * @param {HeldReceipt} one
 * @param {HeldReceipt} other
 */
function isLater(one, other) {
  return one.number > other.number || (one.number === other.number && one.iat > other.iat);
}

/**
 * The new roots that follow a box's root, in their order.
 * @param {Bytes} kid of the box's root
 * @param {HeldRoot[]} roots in the order of their sequences
 * @returns {HeldRoot[]}
 */
function succession(kid, roots) {
  const next = roots.findIndex(({ signer }) => equal(signer, kid));
  return next === -1 ? [] : [roots[next], ...succession(roots[next].kid, roots.slice(next + 1))];
}

/**
 * The last sequence: key sets and new roots share one series.
 * @param {Pick<State, 'keySet' | 'roots'>} authority
 */
function newestSequence({ keySet, roots }) {
  return Math.max(keySet?.sequence ?? 0, ...roots.map(({ sequence }) => sequence));
}

/**
 * @param {Bytes | null} message null if the customer has no authority
 * @returns {State['keySet']}
 */
function toKeySet(message) {
  if (message === null) return null;
  return { sequence: read(message, 'keyset').claims.sequence, message };
}

/**
 * @param {Bytes[]} messages
 * @returns {Promise<HeldRoot[]>}
 */
async function toRoots(messages) {
  const roots = await Promise.all(messages.map(async (message) => {
    const { claims, kid } = read(message, 'root');
    return { sequence: claims.sequence, signer: kid, kid: await kidOf(claims.root), message };
  }));
  return roots.sort((one, other) => one.sequence - other.sequence);
}

/**
 * @param {KeysAnswer['boxes'][number]} box
 * @returns {HeldBox}
 */
function toBox({ box: name, boxKey, names }) {
  const publicKey = boxKey === null ? null : decode(boxKey);
  if (publicKey !== null && !isPublicKey(publicKey)) throw new Refused('claims', 'the key of a box is invalid');
  if (!names.every(isDayKey)) throw new Refused('claims', 'the key of a day is not valid');
  return { name, publicKey: /** @type {ItemMap | null} */ (publicKey), names };
}

/** @param {DayKey} name */
function isDayKey({ day, key }) {
  return Number.isSafeInteger(day) && day >= 0 && key.length === DAY_KEY_BYTES;
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
  const { aud, iat, upto } = read(message, 'receipt').claims;
  return { box: aud, number: upto[0], iat, message };
}
