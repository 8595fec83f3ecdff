/**
 * The app's calls of the server: HTTP and JSON, with messages as base64url.
 */

import { fromBase64url, toBase64url } from './bytes.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 *
 * @typedef {Object} DayKey the key of the names that a box advertises on one day
 * @property {number} day counted from 1970-01-01 in UTC
 * @property {Bytes} key 16 bytes
 *
 * @typedef {Object} KeysAnswer the response of `GET /sdk/keys`, with messages as bytes
 * @property {Bytes | null} keySet null if the customer has no key authority
 * @property {Bytes[]} roots all new roots of the customer, each signed by the previous one
 * @property {Array<{assignmentId: number, carId: number, productId: number, box: string, issued: string,
 *   begins: string, expires: string, renewAfter: string, key: Bytes}>} keys
 * @property {Array<{box: string, productId: number, boxKey: Bytes | null, statusLists: Bytes[],
 *   receipt: Bytes | null, names: DayKey[]}>} boxes `boxKey` is the box's public key, null from older servers. `names`
 *   are the keys of its advertised names, none from older servers
 * @property {Array<{assignmentId: number, reason: string}>} withheld assignments that get no new key, and why
 * @property {boolean} isComplete whether these are all of the user's assignments
 *
 * @typedef {Object} LogAnswer the response of `PUT /sdk/boxlog`
 * @property {Array<{box: string, upTo: number, receipt: Bytes}>} receipts
 * @property {Array<{index: number, reason: string}>} refused
 */

const TIME_TIMEOUT_MS = 5_000; // a nonce of a box is valid for 10 s

/** The server rejected a call. `status` and `code` are the reason (docs/errors.md). */
export class ServerRefusal extends Error {
  /**
   * @param {number} status of HTTP
   * @param {string} code
   * @param {string} detail
   */
  constructor(status, code, detail) {
    super(detail);
    this.name = 'ServerRefusal';
    this.status = status;
    this.code = code;
  }
}

export class Server {
  #base;
  #idToken;
  #fetch;

  /**
   * @param {string} base address of the API: `https://keyrack.example.com/v3`
   * @param {() => Promise<string>} idToken returns a valid id token from your own server (docs/how-to/sdk.md)
   * @param {typeof fetch} [fetch] replaces the function of the browser
   */
  constructor(base, idToken, fetch = (...request) => globalThis.fetch(...request)) {
    this.#base = base.replace(/\/+$/, '');
    this.#idToken = idToken;
    this.#fetch = fetch;
  }

  /**
   * A nonce for the registration of a phone.
   * @returns {Promise<Bytes>}
   */
  async registrationNonce() {
    return fromBase64url((await this.#json('POST', '/sdk/devices/nonce')).nonce);
  }

  /**
   * Register the phone. The same registration may be repeated.
   * @param {Bytes} registration
   * @param {string} name of the phone for its user: `Pixel 9`
   * @param {'Software' | 'TrustedEnvironment' | 'SecureElement'} claimedProtection the storage of the private key
   * @returns {Promise<boolean>} whether it is approved
   */
  async putDevice(registration, name, claimedProtection) {
    const body = { registration: toBase64url(registration), name, claimedProtection };
    return (await this.#json('PUT', '/sdk/devices', body)).isApproved;
  }

  /**
   * @param {string} device its id
   * @param {string | null} etag of the previous response
   * @returns {Promise<{answer: KeysAnswer | null, etag: string | null}>} `answer` is null if nothing has changed
   */
  async getKeys(device, etag) {
    /** @type {Record<string, string>} */
    const headers = etag === null ? {} : { 'If-None-Match': etag };
    const response = await this.#call('GET', `/sdk/keys?device=${encodeURIComponent(device)}`, undefined, headers);
    if (response.status === 304) return { answer: null, etag };
    return { answer: toKeysAnswer(await response.json()), etag: response.headers.get('ETag') };
  }

  /**
   * Deliver log entries of any boxes.
   * @param {Bytes[]} entries
   * @returns {Promise<LogAnswer>}
   */
  async putLog(entries) {
    const { receipts, refused } = await this.#json('PUT', '/sdk/boxlog', { entries: entries.map(toBase64url) });
    return {
      receipts: receipts.map((/** @type {any} */ one) => ({ ...one, receipt: fromBase64url(one.receipt) })),
      refused,
    };
  }

  /**
   * A signed time for the box whose challenge has this nonce. It is valid as long as the nonce, so this call waits 5 s
   * at most.
   * @param {string} box its name
   * @param {Bytes} nonce
   * @returns {Promise<Bytes>}
   */
  async time(box, nonce) {
    const body = { box, nonce: toBase64url(nonce) };
    return fromBase64url((await this.#json('POST', '/sdk/time', body, AbortSignal.timeout(TIME_TIMEOUT_MS))).time);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [body]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async #json(method, path, body, signal) {
    return (await this.#call(method, path, body, {}, signal)).json();
  }

  /**
   * @param {string} method
   * @param {string} path below the base
   * @param {object} [body]
   * @param {Record<string, string>} [headers]
   * @param {AbortSignal} [signal]
   */
  async #call(method, path, body, headers = {}, signal) {
    const response = await this.#fetch(this.#base + path, {
      method,
      headers: {
        Accept: 'application/json, application/problem+json',
        Authorization: `Bearer ${await this.#idToken()}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: 'no-store', // the store is the only cache
      signal,
    });
    if (!response.ok && response.status !== 304) throw await refusal(response);
    return response;
  }
}

/**
 * @param {any} json
 * @returns {KeysAnswer}
 */
function toKeysAnswer(json) {
  return {
    ...json,
    keySet: json.keySet === null ? null : fromBase64url(json.keySet),
    roots: (json.roots ?? []).map(fromBase64url),
    keys: json.keys.map((/** @type {any} */ key) => ({ ...key, key: fromBase64url(key.key) })),
    boxes: json.boxes.map((/** @type {any} */ box) => ({
      ...box,
      boxKey: typeof box.boxKey === 'string' ? fromBase64url(box.boxKey) : null,
      statusLists: box.statusLists.map((/** @type {any} */ list) => fromBase64url(list.statusList)),
      receipt: box.receipt === null ? null : fromBase64url(box.receipt),
      names: (box.names ?? []).map((/** @type {any} */ name) => ({ day: name.day, key: fromBase64url(name.key) })),
    })),
  };
}

/** @param {Response} response */
async function refusal(response) {
  const problem = await response.json().catch(() => ({}));
  const detail = problem.detail ?? `The server has answered ${response.status}.`;
  return new ServerRefusal(response.status, problem.code ?? '', detail);
}
