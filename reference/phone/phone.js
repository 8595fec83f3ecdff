/**
 * The operations of an app: register the phone, exchange data with the server, open and close.
 */

import { Conversation } from './box.js';

/**
 * @typedef {import('./keys.js').DeviceKey} DeviceKey
 * @typedef {import('./link.js').Exchange} Exchange
 * @typedef {import('./server.js').Server} Server
 * @typedef {import('./store.js').Store} Store
 */

const MOST_ENTRIES = 100; // in one call

export class Phone {
  /**
   * @param {DeviceKey} device
   * @param {Store} store
   * @param {Server} server
   */
  constructor(device, store, server) {
    this.device = device;
    this.store = store;
    this.server = server;
  }

  /**
   * Register the phone once, after a user has signed in. Create another key pair if the server answers
   * `device-removed`.
   * @param {string} subject `sub` of the id token
   * @param {string} name of the phone for its user: `Pixel 9`
   * @param {'Software' | 'TrustedEnvironment' | 'SecureElement'} claimedProtection the storage of the private key
   * @returns {Promise<boolean>} whether the phone gets keys; false if a manager must approve it first
   */
  async register(subject, name, claimedProtection = 'Software') {
    const nonce = await this.server.registrationNonce();
    return this.server.putDevice(await this.device.registration(subject, nonce), name, claimedProtection);
  }

  /**
   * Deliver the log, and fetch keys, lists and receipts. Call it at each start of the app, after each opening, and in
   * the background as often as the system allows.
   */
  async meetServer() {
    await this.#bringHome();
    const { etag: known } = await this.store.state();
    const { answer, etag } = await this.server.getKeys(this.device.id, known);
    if (answer === null) await this.store.haveMet();
    else await this.store.takeKeys(answer, etag, this.device.publicKey);
  }

  /**
   * A conversation on a new link to a box: `await phone.at(exchange).open()`.
   * @param {Exchange} exchange
   * @param {number} [productId] of the box that the user wants, so that no key opens another one
   */
  at(exchange, productId) {
    return new Conversation(exchange, this.device, this.store, (box, nonce) => this.server.time(box, nonce), productId);
  }

  async #bringHome() {
    for (;;) {
      const entries = (await this.store.state()).entries.slice(0, MOST_ENTRIES);
      if (entries.length === 0) return;
      const { receipts } = await this.server.putLog(entries.map(({ message }) => message));
      await this.store.broughtHome(entries, receipts.map(({ receipt }) => receipt));
    }
  }
}
