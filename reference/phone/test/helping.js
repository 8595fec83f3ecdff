/**
 * Shared code of the tests: hexadecimal, an authority that signs, and faults of messages.
 */

import { encode } from '../cbor.js';
import { DeviceKey } from '../keys.js';

/** @param {string} text hexadecimal, with spaces where they help */
export function fromHex(text) {
  return Uint8Array.from(text.replaceAll(' ', '').match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** @param {Uint8Array} bytes */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {string} code of a `Refused` */
export function refusedAs(code) {
  return (/** @type {any} */ error) => error.name === 'Refused' && error.code === code;
}

const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n; // of P-256

/**
 * An entry as a carrier may change it: with the higher one of s and n - s in its last 32 bytes.
 * @param {Uint8Array} entry
 */
export function withHighS(entry) {
  const s = ORDER - BigInt(`0x${toHex(entry.slice(-32))}`);
  return hasLowS(entry) ? Uint8Array.of(...entry.slice(0, -32), ...fromHex(s.toString(16).padStart(64, '0'))) : entry;
}

/** @param {Uint8Array} entry */
export function hasLowS(entry) {
  return 2n * BigInt(`0x${toHex(entry.slice(-32))}`) < ORDER;
}

export const BOX = 'box:1041:3';
export const NOW = 1_800_000_000; // seconds
export const HASH = new Uint8Array(32).fill(7);
const NONCE = new Uint8Array(16).fill(9);
export const OFF_CURVE = new Map([[1, 2], [-1, 1], [-2, HASH], [-3, HASH]]);

/** A customer's authority, and the key of a box. */
export class Authority {
  /**
   * @param {DeviceKey} root
   * @param {DeviceKey} issuing the issuing key
   * @param {DeviceKey} service the service key
   * @param {DeviceKey} box
   */
  constructor(root, issuing, service, box) {
    Object.assign(this, { root, issuing, service, box });
  }

  static async make() {
    return new Authority(...(await Promise.all([1, 2, 3, 4].map(() => DeviceKey.generate()))));
  }

  key(publicKey, claims = {}) {
    return this.issuing.sign('key', {
      iss: 'customer:7', sub: 'somebody', aud: BOX, exp: NOW + 604_800, nbf: NOW, iat: NOW, cti: NONCE,
      cnf: new Map([[1, publicKey]]),
      status: new Map([['status_list', new Map([['idx', 5], ['uri', 'https://keyrack.example/lists/1']])]]),
      assignment: 4711, rights: [1, 2], limit: 604_800, ...claims,
    });
  }

  list(generation, iat) {
    return this.issuing.sign('statuslist', {
      iss: 'customer:7', sub: 'https://keyrack.example/lists/1', aud: BOX, exp: iat + 604_800, iat,
      status_list: new Map([['lst', HASH], ['bits', 1]]), ttl: 300, generation,
    });
  }

  keySet(sequence) {
    return this.root.sign('keyset', {
      iss: 'customer:7', iat: NOW, sequence, keys: [this.issuing.publicKey], 'service-keys': [this.service.publicKey],
    });
  }

  /** New roots with these sequences, each signed by the one before. The last one is the root from then on. */
  async newRoots(...sequences) {
    const messages = [];
    for (const sequence of sequences) {
      const next = await DeviceKey.generate();
      messages.push(await this.root.sign('root', { iss: 'customer:7', iat: NOW, sequence, root: next.publicKey }));
      this.root = next;
    }
    return messages;
  }

  receipt(number, iat = NOW) {
    return this.service.sign('receipt', { iss: 'customer:7', aud: BOX, iat, upto: [number, HASH] });
  }

  time(nonce, iat = NOW) {
    return this.service.sign('time', { iss: 'customer:7', aud: BOX, iat, nonce });
  }

  /** An entry, as a box would sign it. */
  entry(number, claims = {}) {
    return this.box.sign('entry', {
      aud: BOX, iat: NOW, cti: NONCE, command: 1, counter: number, number, previous: HASH, first: 1, event: 1, code: 0,
      certain: 1, device: HASH, held: [1, 1, NOW], refused: [0, 0], skipped: 0, 'root-kid': new Uint8Array(8), ...claims,
    });
  }

  /** The response of `GET /sdk/keys` with one assignment. */
  async answer(publicKey, { sequence = 1, roots = [], lists = [[1, NOW]], receipt = null, names = [] } = {}) {
    const key = await this.key(publicKey);
    const statusLists = await Promise.all(lists.map(([generation, iat]) => this.list(generation, iat)));
    const times = { issued: at(0), begins: at(0), expires: at(604_800), renewAfter: at(302_400) };
    return {
      keySet: await this.keySet(sequence),
      roots,
      keys: [{ assignmentId: 4711, carId: 12, productId: 1041, box: BOX, ...times, key }],
      boxes: [{ box: BOX, productId: 1041, boxKey: encode(this.box.publicKey), statusLists, receipt, names }],
      withheld: [],
      isComplete: true,
    };
  }
}

/** @param {number} seconds after `NOW` */
function at(seconds) {
  return new Date((NOW + seconds) * 1000).toISOString();
}
