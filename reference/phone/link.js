/**
 * Messages of the link between phone and box (docs/key-link.md, "On the link"): a request and its answer.
 */

import { decode, encode } from './cbor.js';
import { BoxRefusal, Refused } from './codes.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./cbor.js').Item} Item
 *
 * A transport that carries one whole message to the box, and its answer back. It throws a `TransportLost` if the
 * connection is lost. Any other error counts as a loss after the whole message was sent.
 * @typedef {(message: Bytes) => Promise<Uint8Array>} Exchange
 *
 * @typedef {'none' | 'part' | 'all'} Sent
 *
 * @typedef {Object} Challenge
 * @property {Bytes} message the whole message, whose SHA-256 is in the answer to it
 * @property {string} name of the box, as `aud`; empty before the first provisioning
 * @property {Bytes} nonce
 * @property {number} time in seconds since 1970
 * @property {boolean} isCertain whether the time is certain
 * @property {number} sequence of the key set or new root that the box accepted last, 0 for none
 * @property {number} generation of its newest list, 0 for none
 * @property {number} listIat of that list, 0 for none
 * @property {number} first the lowest number in the box's log
 * @property {number} next the number of the next entry
 * @property {Bytes} root the kid of its root; empty before the first provisioning
 *
 * @typedef {Object} Result
 * @property {number} code 0 if the box carried out the command
 * @property {Bytes} entry empty if none was written
 */

/** The most bytes of a message, in both directions. */
export const LONGEST = 2048;
const VERSIONS = [2]; // of the protocol, ascending
const MOST_ENTRIES = 4; // in one answer
const MOST_NAME = 40; // characters of a name
const NONCE_SIZE = 16;
const HASH_SIZE = 32;
const KID_SIZE = 8;
const SKIPPED = 128; // the lowest key of the members of a challenge that are ignored
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
  /**
   * @param {Sent} sent the sent part of the message; a box ignores an incomplete one
   * @param {unknown} [cause]
   */
  constructor(sent, cause) {
    super('The connection to the box is lost.', { cause });
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
   * Request a challenge. Its new nonce replaces the previous one, and earlier proofs on this link are void.
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
   * @returns {Promise<boolean>} whether the box accepted it
   */
  async carry(artefact) {
    const { members } = await this.#ask([CARRY, artefact], TAKEN, 1);
    return number(members[0], 1) === 0;
  }

  /**
   * Answer the challenge, which opens or closes the box.
   * @param {Bytes} key
   * @param {Bytes} answer
   * @returns {Promise<Result>}
   */
  async open(key, answer) {
    const { members } = await this.#ask([OPEN, key, answer], RESULT, 2);
    return { code: number(members[0]), entry: bytes(members[1]) };
  }

  /**
   * Entries of the log from a number on. The box sends them after an answer on this link has proven a valid key.
   * @param {number} from
   * @returns {Promise<{next: number, entries: Bytes[]}>} `next` is the first number after these entries
   */
  async fetch(from) {
    const { members } = await this.#ask([FETCH, from], ENTRIES, 2);
    const [next, entries] = members;
    if (!Array.isArray(entries) || entries.length > MOST_ENTRIES) throw malformed('no array of at most 4 entries');
    return { next: number(next), entries: entries.map((entry) => bytes(entry)) };
  }

  /**
   * @param {Item[]} request
   * @param {number} kind of the expected answer
   * @param {number} count of its members after the kind
   */
  async #ask(request, kind, count) {
    const message = Uint8Array.from(await this.#exchange(encode(request)));
    if (message.length > LONGEST) throw new Refused('too-long', `an answer of more than ${LONGEST} bytes`);
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

/** The members of a challenge: the name, and the function that reads its value; their keys are 1, 2, 3 and so on. */
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
 * @param {number} [length] any length by default
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
