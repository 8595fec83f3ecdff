/**
 * The worlds of the tests: each has an authority and a box, which tests/offline_keys/phone_world.py creates.
 */

import assert from 'node:assert/strict';

import { DeviceKey } from '../keys.js';
import { Phone } from '../phone.js';
import { Server } from '../server.js';
import { Store } from '../store.js';

/** The address of the bridge; undefined if none was started. */
export const BRIDGE = process.env.KEYRACK_BRIDGE;

/** A world of its own for each test. */
export class World {
  #url;

  /** @param {string} url */
  constructor(url) {
    this.#url = url;
  }

  static async make(settings = {}) {
    const { path } = await (await send(`${BRIDGE}/worlds`, JSON.stringify(settings))).json();
    return new World(BRIDGE + path);
  }

  /** Trigger an event, by its name in the Python class `World`. */
  async do(what, more = {}) {
    return (await send(`${this.#url}/do`, JSON.stringify({ what, ...more }))).json();
  }

  seen() {
    return this.do('seen');
  }

  link(number = 0) {
    return async (message) => new Uint8Array(await (await send(`${this.#url}/box/${number}`, message)).arrayBuffer());
  }

  /** A phone that is registered and has met the server, and has no network from then on. */
  async phone() {
    const network = { isThere: true };
    const reach = (...request) => (network.isThere ? fetch(...request) : Promise.reject(new TypeError('no network')));
    const server = new Server(`${this.#url}/v3`, async () => 'a.b.c', reach);
    const phone = new Phone(await DeviceKey.generate(), new Store(), server);
    await phone.register('somebody', 'Pixel 9', 'Software');
    await phone.meetServer();
    network.isThere = false;
    return { phone, network, at: (number) => phone.at(this.link(number)), meet: () => meet(phone, network) };
  }
}

async function send(url, body) {
  const response = await fetch(url, { method: 'POST', body });
  assert.ok(response.ok, url);
  return response;
}

async function meet(phone, network) {
  network.isThere = true;
  await phone.meetServer();
  network.isThere = false;
}
