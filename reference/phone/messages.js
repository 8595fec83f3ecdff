/**
 * The members of each message, and their valid values (docs/key-protocol.md, "Members").
 *
 * The members have the names of the document here: `{ iss: 'customer:7', iat: 1800000000, ... }`. In the encoding they
 * are the integers of the table. Members that are maps or arrays keep the form of the codec.
 */

import { CODES, Refused } from './codes.js';
import { isPoint } from './curve.js';

/**
 * @typedef {import('./cbor.js').Item} Item
 * @typedef {import('./cbor.js').ItemMap} ItemMap
 * @typedef {(value: unknown) => boolean} Check
 * @typedef {Record<string, any>} Claims by the names of `MEMBERS`
 */

export const OPEN = 1;
export const CLOSE = 2;

const MOST = Number.MAX_SAFE_INTEGER;
const MOST_INT32 = 2 ** 31 - 1;
const RIGHTS = [1, 2, 3]; // open, close, use while the clock is uncertain
const SKIPPED = [-66303, -66048]; // the least and the greatest label that readers skip

/** @type {(least?: number, most?: number) => Check} */
const uint = (least = 0, most = MOST) => (value) => typeof value === 'number' && value >= least && value <= most;
/** @type {(least: number, most: number) => Check} */
const text = (least, most) => (value) => typeof value === 'string' && value.length >= least && value.length <= most;
/** @type {(...lengths: number[]) => Check} */
const bytes = (...lengths) => (value) => value instanceof Uint8Array && lengths.includes(value.length);
/** @type {(checks: Map<number | string, Check>) => Check} */
const mapOf = (checks) => (value) =>
  value instanceof Map && value.size === checks.size && [...checks].every(([key, check]) => check(value.get(key)));
/** @type {(...checks: Check[]) => Check} */
const arrayOf = (...checks) => (value) =>
  Array.isArray(value) && value.length === checks.length && checks.every((check, place) => check(value[place]));

/** @type {(expected: number) => Check} */
const exactly = (expected) => (value) => value === expected;
/** @type {Check} */
const anyBytes = (value) => value instanceof Uint8Array;
const time = uint(1);
const count = uint();
const code = uint(0, CODES.length - 1);

const isKeyMap = mapOf(new Map([[1, exactly(2)], [-1, exactly(1)], [-2, bytes(32)], [-3, bytes(32)]]));

/**
 * Whether this is a COSE_Key of exactly four members (kty EC2, crv P-256, x and y), whose point lies on the curve.
 * @type {Check}
 */
export const isPublicKey = (value) => isKeyMap(value) && isPointOf(/** @type {ItemMap} */ (value));

/** @param {ItemMap} key */
function isPointOf(key) {
  return isPoint(key.get(-2), key.get(-3));
}

/** @type {Check} */
const areRights = (value) =>
  Array.isArray(value) && value.length > 0
  && value.every((right, place) => RIGHTS.includes(right) && (place === 0 || right > value[place - 1]));

/** @type {Check} */
const areKeys = (value) => Array.isArray(value) && [1, 2].includes(value.length) && value.every(isPublicKey);

/** @type {Record<string, [number, Check]>} the key and the check of each member of all payloads */
export const MEMBERS = {
  iss: [1, text(1, 40)],
  sub: [2, text(1, 128)],
  aud: [3, text(1, 40)],
  exp: [4, time],
  nbf: [5, time],
  iat: [6, time],
  cti: [7, bytes(16)],
  cnf: [8, mapOf(new Map([[1, isPublicKey]]))],
  nonce: [10, bytes(16)],
  status_list: [65533, mapOf(new Map([['lst', anyBytes], ['bits', exactly(1)]]))],
  ttl: [65534, uint(1)],
  status: [65535, mapOf(new Map([['status_list', mapOf(new Map([['idx', count], ['uri', text(1, 128)]]))]]))],
  assignment: [-65537, uint(1, MOST_INT32)],
  rights: [-65538, areRights],
  limit: [-65539, uint(1, MOST_INT32)],
  command: [-65540, uint(1, 2)],
  counter: [-65541, count],
  key: [-65542, bytes(32)],
  challenge: [-65543, bytes(32)],
  sequence: [-65544, uint(1)],
  keys: [-65545, areKeys],
  generation: [-65546, uint(1)],
  upto: [-65547, arrayOf(uint(1), bytes(32))],
  root: [-65548, isPublicKey],
  box: [-65549, bytes(32)],
  number: [-65550, uint(1)],
  previous: [-65551, bytes(32)],
  first: [-65552, uint(1)],
  event: [-65553, uint(1, 6)],
  code: [-65554, code],
  certain: [-65555, uint(0, 1)],
  device: [-65556, bytes(0, 32)],
  held: [-65557, arrayOf(uint(1), count, count)],
  refused: [-65558, arrayOf(count, code)],
  advertising: [-65559, bytes(16)],
  list: [-65560, bytes(32)],
  keyset: [-65561, bytes(32)],
  'service-keys': [-65562, areKeys],
  skipped: [-65563, count],
  'root-kid': [-65564, bytes(8)],
};

/** @type {Record<string, Check>} members with another range in an entry, which may have no user */
const IN_ENTRIES = { cti: bytes(0, 16), command: uint(0, 2) };

/** A kind of signed message: its `typ`, its members, and its maximum bytes. */
class Message {
  /**
   * @param {string} typ
   * @param {number} most
   * @param {string} names of the members
   * @param {Record<string, Check>} own checks in place of those of the members
   */
  constructor(typ, most, names, own = {}) {
    this.typ = typ;
    this.most = most;
    this.members = names.split(' ').map((name) => {
      const [key, check] = MEMBERS[name];
      return { name, key, check: own[name] ?? check };
    });
  }
}

/** @type {(name: string) => string} */
const typ = (name) => `application/vnd.keyrack.${name}-2+cwt`;

/** @type {Record<string, Message>} each message by its name */
export const MESSAGES = {
  key: new Message(typ('key'), 640, 'iss sub aud exp nbf iat cti cnf status assignment rights limit'),
  answer: new Message(typ('answer'), 400, 'aud nonce command counter key challenge'),
  statuslist: new Message('application/statuslist+cwt', 768, 'iss sub aud exp iat status_list ttl generation'),
  keyset: new Message(typ('keyset'), 640, 'iss iat sequence keys service-keys'),
  root: new Message(typ('root'), 400, 'iss iat sequence root'),
  time: new Message(typ('time'), 300, 'iss aud iat nonce'),
  receipt: new Message(typ('receipt'), 300, 'iss aud iat upto'),
  provisioning: new Message(typ('provisioning'), 600, 'iss aud iat nonce root box advertising list keyset'),
  enrolment: new Message(typ('enrolment'), 400, 'cnf nonce'),
  registration: new Message(typ('registration'), 500, 'sub cnf nonce'),
  entry: new Message(
    typ('entry'),
    500,
    'aud iat cti command counter number previous first event code certain device held refused skipped root-kid',
    IN_ENTRIES,
  ),
};

/**
 * The payload of a message to sign.
 * @param {string} name of the message
 * @param {Claims} claims
 * @returns {ItemMap}
 */
export function toPayload(name, claims) {
  const { members } = MESSAGES[name];
  const unknown = Object.keys(claims).filter((given) => !members.some((member) => member.name === given));
  const wrong = members.filter((member) => !member.check(claims[member.name])).map((member) => member.name);
  if (unknown.length + wrong.length > 0) throw new TypeError(`Invalid members of ${name}: ${[...unknown, ...wrong]}`);
  return new Map(members.map((member) => [member.key, claims[member.name]]));
}

/**
 * The claims of a payload, which must have exactly the members of the message, or is rejected with the code `claims`.
 * Members in the range `SKIPPED` are ignored.
 * @param {string} name of the message
 * @param {Item} payload
 * @returns {Claims}
 */
export function fromPayload(name, payload) {
  const { members } = MESSAGES[name];
  if (!(payload instanceof Map)) throw new Refused('claims', 'the payload is no map');
  const wrong = members.find((member) => !member.check(payload.get(member.key)));
  if (wrong !== undefined) throw new Refused('claims', `${wrong.name} is missing or out of its range`);
  const own = [...payload.keys()].filter((key) => !isSkippable(key));
  if (own.length !== members.length) throw new Refused('claims', 'a member that the message does not have');
  return Object.fromEntries(members.map((member) => [member.name, payload.get(member.key)]));
}

/** @param {number | string} label of a payload */
function isSkippable(label) {
  return typeof label === 'number' && label >= SKIPPED[0] && label <= SKIPPED[1];
}
