/**
 * The phone's key pair, created on the phone. The private key never leaves it.
 *
 * A browser stores it as a CryptoKey that cannot be extracted. An app for Android or iOS creates it in the Keystore or
 * the Secure Enclave instead, and implements `kid`, `thumbprint`, `publicKey` and signing.
 */

import { toBase64url } from './bytes.js';
import { kidOf, sign, thumbprint, toPublicKey } from './cose.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./cbor.js').ItemMap} ItemMap
 * @typedef {import('./messages.js').Claims} Claims
 */

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' };
const EXTRACTABLE = false; // the private key; WebCrypto always gives the public one

export class DeviceKey {
  /**
   * Call `generate` or `of` instead.
   * @param {CryptoKeyPair} pair
   * @param {ItemMap} publicKey
   * @param {Bytes} print
   * @param {Bytes} kid
   */
  constructor(pair, publicKey, print, kid) {
    /** The stored form, which IndexedDB can store unchanged. */
    this.pair = pair;
    this.publicKey = publicKey;
    this.thumbprint = print;
    this.kid = kid;
  }

  /** The id of the device in the API. */
  get id() {
    return toBase64url(this.thumbprint);
  }

  static async generate() {
    return DeviceKey.of(await crypto.subtle.generateKey(CURVE, EXTRACTABLE, ['sign', 'verify']));
  }

  /**
   * The key of a stored pair.
   * @param {CryptoKeyPair} pair
   */
  static async of(pair) {
    const publicKey = await toPublicKey(pair.publicKey);
    return new DeviceKey(pair, publicKey, await thumbprint(publicKey), await kidOf(publicKey));
  }

  /**
   * @param {string} name of the message
   * @param {Claims} claims
   */
  sign(name, claims) {
    return sign(name, claims, { privateKey: this.pair.privateKey, kid: this.kid });
  }

  /**
   * The registration message, which proves to the server that the phone has the private key.
   * @param {string} subject of the user, as in the id token
   * @param {Bytes} nonce of the server, valid for ten minutes
   */
  registration(subject, nonce) {
    return this.sign('registration', { sub: subject, cnf: new Map([[1, this.publicKey]]), nonce });
  }
}
