/**
 * The encoding of docs/key-protocol.md ("Encoding"): a small subset of deterministic CBOR.
 *
 * | CBOR              | JavaScript                                 |
 * |-------------------|--------------------------------------------|
 * | integer           | number, within -2^31 and 2^53 - 1          |
 * | byte string       | Uint8Array                                 |
 * | text              | string, of the characters U+0020 to U+007E |
 * | array             | Array                                      |
 * | map               | Map, with numbers and strings as keys      |
 * | tag 18 around all | Tagged                                     |
 *
 * Everything else is rejected with the code `encoding`.
 */

import { compare } from './bytes.js';
import { Refused } from './codes.js';

const MOST_DEPTH = 6; // maximum nesting of arrays, maps and the tag
const LEAST_INTEGER = -(2 ** 31);
const SIGN1 = 18;
const PRINTABLE = /^[ -~]*$/;

const UNSIGNED = 0;
const NEGATIVE = 1;
const BYTES = 2;
const TEXT = 3;
const ARRAY = 4;
const MAP = 5;
const TAG = 6;

/**
 * @typedef {number | string | Uint8Array | ItemArray | ItemMap} Item
 * @typedef {Item[]} ItemArray
 * @typedef {Map<number | string, any>} ItemMap
 */

/** An item with tag 18: a signed message. */
export class Tagged {
  /** @param {Item} item */
  constructor(item) {
    this.item = item;
  }
}

/**
 * @param {Item | Tagged} item
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encode(item) {
  const writer = new Writer();
  if (item instanceof Tagged) {
    writer.head(TAG, SIGN1);
    writer.item(item.item, 1);
  } else {
    writer.item(item, 0);
  }
  return Uint8Array.from(writer.bytes);
}

/**
 * One item without a tag.
 * @param {Uint8Array} bytes
 * @returns {Item}
 */
export function decode(bytes) {
  const reader = new Reader(bytes);
  const item = reader.item(0);
  reader.end();
  return item;
}

/**
 * One item in the place of a signed message: with tag 18, or without a tag, which the caller rejects.
 * @param {Uint8Array} bytes
 * @returns {Item | Tagged}
 */
export function decodeSigned(bytes) {
  const isTagged = bytes[0] === ((TAG << 5) | SIGN1);
  if (!isTagged) return decode(bytes);
  const reader = new Reader(bytes);
  reader.head();
  const item = reader.item(1);
  reader.end();
  return new Tagged(item);
}

class Writer {
  /** @type {number[]} */
  bytes = [];

  /**
   * @param {Item} item
   * @param {number} depth number of enclosing arrays, maps and tags
   */
  item(item, depth) {
    if (typeof item === 'number') this.integer(item);
    else if (typeof item === 'string') this.text(item);
    else if (item instanceof Uint8Array) this.string(BYTES, item);
    else if (depth === MOST_DEPTH) throw new RangeError(`The nesting is deeper than ${MOST_DEPTH}.`);
    else if (Array.isArray(item)) this.array(item, depth + 1);
    else if (item instanceof Map) this.map(item, depth + 1);
    else throw new TypeError('CBOR cannot encode a value of this type here.');
  }

  /** @param {number} value */
  integer(value) {
    if (!Number.isSafeInteger(value) || value < LEAST_INTEGER) throw new RangeError(`Out of range: ${value}`);
    if (value < 0) this.head(NEGATIVE, -1 - value);
    else this.head(UNSIGNED, value);
  }

  /** @param {string} value */
  text(value) {
    if (!PRINTABLE.test(value)) throw new RangeError('A text may only have the characters U+0020 to U+007E.');
    this.string(TEXT, new TextEncoder().encode(value));
  }

  /** @param {number} type @param {Uint8Array} value */
  string(type, value) {
    this.head(type, value.length);
    this.bytes.push(...value);
  }

  /** @param {Item[]} items @param {number} depth */
  array(items, depth) {
    this.head(ARRAY, items.length);
    for (const item of items) this.item(item, depth);
  }

  /** @param {ItemMap} map @param {number} depth */
  map(map, depth) {
    this.head(MAP, map.size);
    const members = [...map].map(([key, value]) => ({ key: encode(key), value }));
    for (const { key, value } of members.sort((one, other) => compare(one.key, other.key))) {
      this.bytes.push(...key);
      this.item(value, depth);
    }
  }

  /**
   * Write the shortest head for the argument. Uses division, because bit operators have only 32 bits.
   * @param {number} type
   * @param {number} argument
   */
  head(type, argument) {
    if (argument < 24) {
      this.bytes.push((type << 5) | argument);
      return;
    }
    const power = [1, 2, 4].findIndex((size) => argument < 256 ** size);
    const log = power === -1 ? 3 : power;
    this.bytes.push((type << 5) | (24 + log));
    for (let place = 2 ** log - 1; place >= 0; place -= 1) {
      this.bytes.push(Math.floor(argument / 256 ** place) % 256);
    }
  }
}

class Reader {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /**
   * @param {number} depth number of enclosing arrays, maps and tags
   * @returns {Item}
   */
  item(depth) {
    const [type, argument] = this.head();
    if (type === UNSIGNED) return argument;
    if (type === NEGATIVE) return negative(argument);
    if (type === BYTES) return this.take(argument).slice();
    if (type === TEXT) return this.text(argument);
    if (type !== ARRAY && type !== MAP) throw refusal('a type that is not allowed');
    if (depth === MOST_DEPTH) throw refusal('nested too deep');
    return type === ARRAY ? this.array(argument, depth + 1) : this.map(argument, depth + 1);
  }

  /** @returns {[number, number]} type and argument */
  head() {
    const [first] = this.take(1);
    const type = first >> 5;
    const low = first & 31;
    if (low < 24) return [type, low];
    if (low > 27) throw refusal('an indefinite length, or a head that is reserved');
    const size = 2 ** (low - 24);
    const argument = this.take(size).reduce((sum, byte) => sum * 256 + byte, 0);
    const least = size === 1 ? 24 : 256 ** (size / 2);
    if (argument < least) throw refusal('a head that is not the shortest');
    if (argument > Number.MAX_SAFE_INTEGER) throw refusal('an argument above 2^53 - 1');
    return [type, argument];
  }

  /** @param {number} length */
  take(length) {
    if (length > this.bytes.length - this.at) throw refusal('it ends too early');
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** @param {number} length */
  text(length) {
    const text = String.fromCharCode(...this.take(length));
    if (!PRINTABLE.test(text)) throw refusal('a character other than U+0020 to U+007E');
    return text;
  }

  /** @param {number} length @param {number} depth */
  array(length, depth) {
    const items = [];
    for (let i = 0; i < length; i += 1) items.push(this.item(depth));
    return items;
  }

  /** @param {number} length @param {number} depth */
  map(length, depth) {
    const map = new Map();
    let last = this.bytes.subarray(0, 0);
    for (let i = 0; i < length; i += 1) {
      const start = this.at;
      const key = this.item(depth);
      const encoded = this.bytes.subarray(start, this.at);
      if (typeof key !== 'number' && typeof key !== 'string') throw refusal('a key that is no integer and no text');
      if (compare(last, encoded) >= 0) throw refusal('keys that are not in order, or one that comes twice');
      last = encoded;
      map.set(key, this.item(depth));
    }
    return map;
  }

  end() {
    if (this.at < this.bytes.length) throw refusal('something follows the item');
  }
}

/** @param {number} argument */
function negative(argument) {
  const integer = -1 - argument;
  if (integer < LEAST_INTEGER) throw refusal('an integer below -2^31');
  return integer;
}

/** @param {string} why */
function refusal(why) {
  return new Refused('encoding', why);
}
