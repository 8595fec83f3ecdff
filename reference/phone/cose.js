/**
 * Signed messages (docs/key-protocol.md, "Signed messages"): COSE_Sign1 with ES256, by WebCrypto.
 */

import { equal, sha256 } from './bytes.js';
import { decode, decodeSigned, encode, Tagged } from './cbor.js';
import { Refused } from './codes.js';
import { withLowS } from './curve.js';
import { fromPayload, MESSAGES, toPayload } from './messages.js';

/**
 * @typedef {Uint8Array<ArrayBuffer>} Bytes
 * @typedef {import('./cbor.js').Item} Item
 * @typedef {import('./cbor.js').ItemMap} ItemMap
 * @typedef {import('./messages.js').Claims} Claims
 */

/**
 * A parsed signed message. Its signature is not verified: `isSignedBy` does that.
 * @typedef {Object} SignedMessage
 * @property {string} name of the message
 * @property {Claims} claims
 * @property {Bytes} kid of the key that signed it, according to its header
 * @property {Bytes} toBeSigned its Sig_structure
 * @property {Bytes} signature
 */

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' };
const ES256 = { name: 'ECDSA', hash: 'SHA-256' };
const [ALG, KID, TYP] = [1, 4, 16]; // labels of the header
const ALG_ES256 = -7;
const KID_SIZE = 8;
const SIGNATURE_SIZE = 64;
const UNCOMPRESSED = 4; // first byte of a point with both coordinates

/**
 * A public key as a COSE_Key.
 * @param {CryptoKey} key
 * @returns {Promise<ItemMap>}
 */
export async function toPublicKey(key) {
  const point = new Uint8Array(await crypto.subtle.exportKey('raw', key));
  /** @type {[number, Item][]} */
  const members = [[1, 2], [-1, 1], [-2, point.slice(1, 33)], [-3, point.slice(33)]];
  return new Map(members);
}

/**
 * The thumbprint of a public key (RFC 9679).
 * @param {ItemMap} publicKey
 * @returns {Promise<Bytes>} 32 bytes
 */
export function thumbprint(publicKey) {
  return sha256(encode(publicKey));
}

/**
 * @param {ItemMap} publicKey
 * @returns {Promise<Bytes>} 8 bytes
 */
export async function kidOf(publicKey) {
  return (await thumbprint(publicKey)).slice(0, KID_SIZE);
}

/**
 * @param {string} name of the message
 * @param {Claims} claims
 * @param {{privateKey: CryptoKey, kid: Bytes}} signer
 * @returns {Promise<Bytes>}
 */
export async function sign(name, claims, { privateKey, kid }) {
  /** @type {[number, Item][]} */
  const labels = [[ALG, ALG_ES256], [KID, kid], [TYP, MESSAGES[name].typ]];
  const header = encode(new Map(labels));
  const payload = encode(toPayload(name, claims));
  const signature = await crypto.subtle.sign(ES256, privateKey, toBeSigned(header, payload));
  return encode(new Tagged([header, new Map(), payload, new Uint8Array(signature)]));
}

/**
 * Read a signed message, in the order of docs/key-protocol.md ("Reading a signed message").
 * @param {Uint8Array} bytes
 * @param {...string} names of the messages that are allowed here
 * @returns {SignedMessage}
 * @throws {Refused} with the code of the first fault
 */
export function read(bytes, ...names) {
  const most = Math.max(...names.map((name) => MESSAGES[name].most));
  if (bytes.length > most) throw new Refused('too-long', `${names} has at most ${most} bytes`);
  const [header, payload, signature] = readParts(decodeSigned(bytes));
  const { kid, typ } = readHeader(decode(header));
  const name = names.find((expected) => MESSAGES[expected].typ === typ);
  if (name === undefined) throw new Refused('typ', `${typ} is not ${names}`);
  const claims = fromPayload(name, decode(payload));
  return { name, claims, kid, toBeSigned: toBeSigned(header, payload), signature };
}

/**
 * An entry of a box's log, with a low s. A carrier of an entry can replace its s with n - s, which is also valid. With
 * the low s both are the same entry, whose SHA-256 the box knows.
 * @param {Bytes} bytes
 * @returns {{entry: SignedMessage, message: Bytes}} the parsed entry, and its bytes with the low s
 * @throws {Refused} like `read`
 */
export function readEntry(bytes) {
  const entry = read(bytes, 'entry');
  const signature = withLowS(entry.signature);
  const unsigned = bytes.subarray(0, bytes.length - SIGNATURE_SIZE); // the signature is the last member
  return { entry: { ...entry, signature }, message: Uint8Array.of(...unsigned, ...signature) };
}

/**
 * Whether the holder of a key signed a message.
 * @param {SignedMessage} message
 * @param {ItemMap} publicKey for which `isPublicKey` holds
 * @returns {Promise<boolean>}
 */
export async function isSignedBy(message, publicKey) {
  if (!equal(message.kid, await kidOf(publicKey))) return false;
  const point = Uint8Array.of(UNCOMPRESSED, ...publicKey.get(-2), ...publicKey.get(-3));
  const key = await crypto.subtle.importKey('raw', point, CURVE, true, ['verify']);
  return crypto.subtle.verify(ES256, key, message.signature, message.toBeSigned);
}

/**
 * @param {Item | Tagged} item
 * @returns {[Bytes, Bytes, Bytes]} protected header, payload, signature
 */
function readParts(item) {
  if (!(item instanceof Tagged)) throw new Refused('structure', 'no tag 18');
  if (!Array.isArray(item.item) || item.item.length !== 4) throw new Refused('structure', 'no array of four');
  const [header, unprotected, payload, signature] = item.item;
  if (!(unprotected instanceof Map) || unprotected.size > 0) throw new Refused('structure', 'no empty map');
  const parts = [header, payload, signature];
  if (!parts.every((part) => part instanceof Uint8Array)) throw new Refused('structure', 'no byte string');
  const [one, two, three] = /** @type {Bytes[]} */ (parts);
  if (three.length !== SIGNATURE_SIZE) throw new Refused('structure', 'no signature of 64 bytes');
  return [one, two, three];
}

/**
 * @param {Item} header
 * @returns {{kid: Bytes, typ: string}}
 */
function readHeader(header) {
  const isHeader = header instanceof Map && header.size === 3 && [ALG, KID, TYP].every((label) => header.has(label));
  if (!isHeader) throw new Refused('header', 'not the labels 1, 4 and 16');
  const [kid, typ] = [header.get(KID), header.get(TYP)];
  if (header.get(ALG) !== ALG_ES256) throw new Refused('algorithm', 'not ES256');
  if (!(kid instanceof Uint8Array) || kid.length !== KID_SIZE) throw new Refused('header', 'no kid of 8 bytes');
  if (typeof typ !== 'string') throw new Refused('header', 'typ is no text');
  return { kid: /** @type {Bytes} */ (kid), typ };
}

/**
 * The Sig_structure of RFC 9052, section 4.4.
 * @param {Bytes} header
 * @param {Bytes} payload
 */
function toBeSigned(header, payload) {
  return encode(['Signature1', header, new Uint8Array(), payload]);
}
