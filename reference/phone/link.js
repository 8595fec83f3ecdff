/**
 * In charge of what is said on the link (docs/key-link.md, "On the link"): one message there, one back.
 */

import { decode, encode } from './cbor.js';
import { BoxRefusal, Refused } from './codes.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./cbor.js').Item} Item
 *
 * Any transport that carries one whole message to the box, and its answer back. Where the connection is lost it throws a
 * `TransportLost`. Any other error counts as one after all was sent.
 * @typedef {(message: Bytes) => Promise<Uint8Array>} Exchange
 *
 * @typedef {Object} Challenge
 * @property {Bytes} message the whole of it, which the answer names
 * @property {string} name of the box, as `aud`; empty before the first provisioning
 * @property {Bytes} nonce
 * @property {number} time in seconds since 1970
 * @property {boolean} isCertain whether the time is
 * @property {number} sequence of the key set or new root that the box has taken last, 0 for none
 * @property {number} generation of its newest list, 0 for none
 * @property {number} listIat of that list, 0 for none
 * @property {number} first the lowest number of the log that it holds
 * @property {number} next the number that the next entry gets
 * @property {Bytes} root the kid of its root; empty before the first provisioning
 *
 * @typedef {Object} Result
 * @property {number} code 0 where the box has done it
 * @property {Bytes} entry empty where none was written
 */

const VERSIONS = [2]; // of the protocol, ascending
const MOST = 2048; // bytes of a message, in both directions
const MOST_ENTRIES = 4; // in one answer
const MOST_NAME = 40; // characters
const NONCE_SIZE = 16;
const HASH_SIZE = 32;
const KID_SIZE = 8;
const SKIPPED = 128; // members of a challenge are skipped from this key on
const MOST_VERSIONS = 8; // in one message

const HELLO = 1;
const CHALLENGE = 2;
const CARRY = 3;
const TAKEN = 4;
const OPEN = 5;
const RESULT = 6;
const FETCH = 7;
const ENTRIES = 8;
const SPOKEN = 12;

/** The connection to the box is lost. */
export class TransportLost extends Error {
  /** @param {'none' | 'part' | 'all'} sent how much of the message had left the phone; a box does nothing with a part */
  constructor(sent) {
    super('The connection to the box is lost.');
    this.name = 'TransportLost';
    this.sent = sent;
    this.action = 'again';
    this.help = 'Go nearer to the box, then try again.';
  }
}

/** The app and the box speak no common version of the protocol. `message` and `help` are for the user. */
export class VersionMismatch extends Error {
  /** @param {number[]} versions that the box speaks */
  constructor(versions) {
    const isAppOld = versions.some((version) => version > Math.max(...VERSIONS));
    super(isAppOld ? 'The app is too old for this box.' : 'The box is too old for this app.');
    this.name = 'VersionMismatch';
    this.versions = versions;
    this.action = isAppOld ? 'update' : 'ask';
    this.help = isAppOld ? 'Update the app, then try again.' : 'Ask the operator to update the box.';
  }
}

/** One link to a box. */
export class Link {
  #exchange;

  /** @param {Exchange} exchange */
  constructor(exchange) {
    this.#exchange = exchange;
  }

  /**
   * Ask for a challenge. It has a new nonce, and the one before is dead. What was proven on this link is proven no
   * more.
   * @returns {Promise<Challenge>}
   * @throws {VersionMismatch} if the box speaks none of the phone's versions
   */
  async hello() {
    const { message, members } = await this.#ask([HELLO, VERSIONS], CHALLENGE, 1);
    return toChallenge(message, members[0]);
  }

  /**
   * Bring a new root, a key set, a time, a status list or a receipt.
   * @param {Bytes} artefact
   * @returns {Promise<boolean>} whether the box has taken it
   */
  async carry(artefact) {
    const { members } = await this.#ask([CARRY, artefact], TAKEN, 1);
    return number(members[0], 1) === 0;
  }

  /**
   * Answer the challenge: open or close, as the answer says.
   * @param {Bytes} key
   * @param {Bytes} answer
   * @returns {Promise<Result>}
   */
  async open(key, answer) {
    const { members } = await this.#ask([OPEN, key, answer], RESULT, 2);
    return { code: number(members[0]), entry: bytes(members[1]) };
  }

  /**
   * Entries of the log from a number on. The box gives them once an answer on this link has proven a good key.
   * @param {number} from
   * @returns {Promise<{next: number, entries: Bytes[]}>} `next` is the number that the box gives next
   */
  async fetch(from) {
    const { members } = await this.#ask([FETCH, from], ENTRIES, 2);
    const [next, entries] = members;
    if (!Array.isArray(entries) || entries.length > MOST_ENTRIES) throw malformed('no array of at most 4 entries');
    return { next: number(next), entries: entries.map((entry) => bytes(entry)) };
  }

  /**
   * @param {Item[]} request
   * @param {number} kind of the answer that is due
   * @param {number} count of its members behind the kind
   */
  async #ask(request, kind, count) {
    const message = Uint8Array.from(await this.#exchange(encode(request)));
    if (message.length > MOST) throw new Refused('too-long', `an answer of more than ${MOST} bytes`);
    const answer = decode(message);
    if (!Array.isArray(answer)) throw malformed('no array');
    const [said, ...members] = answer;
    if (said === RESULT && kind !== RESULT) throw new BoxRefusal(number(members[0]));
    if (said === SPOKEN && kind === CHALLENGE && members.length === 1) throw new VersionMismatch(versions(members[0]));
    if (said !== kind || members.length !== count) throw malformed(`not the answer that is due: ${kind}`);
    return { message, members };
  }
}

/** @type {(length: number) => (value: Item) => Bytes} */
const bytesOf = (length) => (value) => bytes(value, length);
/** @type {(most?: number) => (value: Item) => number} */
const upTo = (most) => (value) => number(value, most);

/** The members of a challenge: the name here, and how its value is read; their keys are 1, 2, 3 and so on. */
const MEMBERS = /** @type {const} */ ([
  ['version', version],
  ['name', nameOf],
  ['nonce', bytesOf(NONCE_SIZE)],
  ['time', upTo()],
  ['certain', upTo(1)],
  ['sequence', upTo()],
  ['generation', upTo()],
  ['listIat', upTo()],
  ['first', upTo()],
  ['next', upTo()],
  ['newest', bytesOf(HASH_SIZE)],
  ['root', rootKid],
]);

/**
 * @param {Bytes} message
 * @param {Item} map
 * @returns {Challenge}
 */
function toChallenge(message, map) {
  if (!(map instanceof Map)) throw malformed('no challenge');
  const own = [...map.keys()].filter((key) => typeof key !== 'number' || key < SKIPPED);
  if (own.length !== MEMBERS.length) throw malformed('not the members of a challenge');
  const read = Object.fromEntries(MEMBERS.map(([name, reads], place) => [name, reads(map.get(place + 1))]));
  return /** @type {any} */ ({ ...read, message, isCertain: read.certain === 1 });
}

/**
 * @param {Item} value
 * @returns {number}
 */
function version(value) {
  if (typeof value !== 'number' || !VERSIONS.includes(value)) throw malformed('a version that was not offered');
  return value;
}

/**
 * @param {Item} value
 * @returns {number[]} 1 to 8 versions, ascending, none of which the phone speaks
 */
function versions(value) {
  if (!Array.isArray(value) || value.length === 0 || value.length > MOST_VERSIONS) throw malformed('no versions');
  const each = value.map((item) => number(item));
  if (each.some((item, place) => VERSIONS.includes(item) || (place > 0 && item <= each[place - 1]))) {
    throw malformed('versions that are not ascending, or one that was offered');
  }
  return each;
}

/**
 * @param {Item} value
 * @returns {Bytes}
 */
function rootKid(value) {
  const kid = bytes(value);
  if (kid.length !== 0 && kid.length !== KID_SIZE) throw malformed('no kid of a root');
  return kid;
}

/**
 * @param {Item} value
 * @returns {string}
 */
function nameOf(value) {
  if (typeof value !== 'string' || value.length > MOST_NAME) throw malformed('no name');
  return value;
}

/**
 * @param {Item} value
 * @param {number} most
 * @returns {number}
 */
function number(value, most = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== 'number' || value < 0 || value > most) throw malformed('no number, or out of its range');
  return value;
}

/**
 * @param {Item} value
 * @param {number} [length] any where none is given
 * @returns {Bytes}
 */
function bytes(value, length) {
  const isRight = value instanceof Uint8Array && (length === undefined || value.length === length);
  if (!isRight) throw malformed('no byte string, or not of its length');
  return /** @type {Bytes} */ (value);
}

/** @param {string} why */
function malformed(why) {
  return new Refused('structure', why);
}
