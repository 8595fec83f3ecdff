/**
 * This phone at each customer: its key pair, its registration, and the exchange with the server.
 *
 * Each customer gets a key pair of its own, because a common one would link the customers. A lost key is an ordinary
 * event: the next contact with the server registers a new one.
 */

import { ApiError, call, NoNetwork } from './api.js';
import { DATABASE, keep, readKept } from './kept.js';
import { discardPhone, openPhone } from './phone/indexeddb.js';
import { Phone } from './phone/phone.js';
import { Server, ServerRefusal } from './phone/server.js';

/** @typedef {import('./kept.js').Registration} Registration */

const API = '/v3';
const MEETING = 'keyrack-drive-meeting'; // one page or worker exchanges data at a time

/**
 * The phone of a customer, with its own key pair.
 * @param {number} customer
 */
export async function phoneOf(customer) {
  const tokens = new Tokens(customer);
  const { device, store } = await openPhone(DATABASE, ownerOf(customer));
  const phone = new Phone(device, store, new Server(location.origin + API, () => tokens.token()));
  return { phone, tokens };
}

/**
 * Register this phone where it is not, deliver the logs, and fetch the keys of all customers. One customer's error
 * does not keep the others from being served.
 * @param {number[]} customers
 * @returns {Promise<void>}
 * @throws {NoNetwork | ApiError} the first error
 */
export async function meetServer(customers) {
  await navigator.locks.request(MEETING, async () => {
    /** @type {unknown[]} */
    const errors = [];
    for (const customer of customers) await meet(customer).catch((error) => errors.push(error));
    if (errors.length > 0) throw errors[0];
  });
}

/**
 * Create another key pair, and register it: the user has asked for it, after the phone was removed.
 * @param {number} customer
 */
export async function replaceKey(customer) {
  await discardPhone(DATABASE, ownerOf(customer));
  await keep(({ phones }) => ({ phones: without(phones, customer) }));
  await meetServer([customer]);
}

/**
 * Remove a phone of the driver, so that its keys are revoked.
 * @param {number} customer
 * @param {string} id
 */
export async function removePhone(customer, id) {
  const { idToken } = await call('POST', '/drive/api/token', null, { customer });
  await call('DELETE', `${API}/sdk/devices/${id}`, null, { token: idToken });
}

/**
 * Deliver the logs, and remove this phone at all customers, before its keys are deleted. Without the removal, each
 * sign-in would take another place of the driver's phones.
 * @returns {Promise<void>}
 * @throws {NoNetwork}
 */
export async function leaveServer() {
  await navigator.locks.request(MEETING, async () => {
    for (const [customer, { id }] of Object.entries((await readKept()).phones)) {
      await unlessRejected(asNetwork((await phoneOf(Number(customer))).phone.meetServer()));
      await unlessRejected(removePhone(Number(customer), id));
    }
  });
}

/**
 * Wait for a contact whose rejection does not matter, such as that of a phone that was removed before.
 * @param {Promise<unknown>} contact
 * @throws {NoNetwork}
 */
async function unlessRejected(contact) {
  await contact.catch((error) => {
    if (error instanceof NoNetwork) throw error;
  });
}

/** @param {number} customer */
async function meet(customer) {
  const { phone } = await phoneOf(customer);
  const known = (await readKept()).phones[customer];
  if (known?.id !== phone.device.id) return enrol(customer);
  if (known.registration === 'removed') return undefined; // until the user registers it again
  try {
    await asNetwork(phone.meetServer());
    await remember(customer, phone.device.id, 'ready');
  } catch (error) {
    if (!(error instanceof ServerRefusal)) throw error;
    if (error.code === 'device-not-found') return enrol(customer);
    if (error.code !== 'device-not-approved') throw error;
    await remember(customer, phone.device.id, 'unapproved');
  }
  return undefined;
}

/**
 * Register the phone, and fetch its first keys. A key pair of another user is replaced.
 * @param {number} customer
 */
async function enrol(customer) {
  const { phone, tokens } = await phoneOf(customer);
  try {
    const isApproved = await asNetwork(phone.register(subjectOf(await tokens.token()), deviceName()));
    await remember(customer, phone.device.id, isApproved ? 'ready' : 'unapproved');
    if (isApproved) await asNetwork(phone.meetServer());
  } catch (error) {
    if (!(error instanceof ServerRefusal)) throw error;
    if (error.code === 'device-of-other-user') {
      await discardPhone(DATABASE, ownerOf(customer));
      await enrol(customer);
      return;
    }
    const registration = FAILURES.get(error.code);
    if (registration === undefined) throw error;
    await remember(customer, phone.device.id, registration);
  }
}

/** @type {Map<string, Registration>} */
const FAILURES = new Map([
  ['device-removed', 'removed'],
  ['too-many-devices', 'full'],
]);

/**
 * @param {number} customer
 * @param {string} id
 * @param {Registration} registration
 */
function remember(customer, id, registration) {
  return keep(({ phones }) => ({ phones: { ...phones, [customer]: { id, registration } } }));
}

/** The id tokens of one customer. */
class Tokens {
  #customer;
  /** @type {Promise<string> | null} */
  #token = null;

  /** @param {number} customer */
  constructor(customer) {
    this.#customer = customer;
  }

  /** @returns {Promise<string>} one for the whole conversation with the server, which takes seconds */
  token() {
    this.#token ??= call('POST', '/drive/api/token', null, { customer: this.#customer }).then(
      ({ idToken }) => idToken,
      (error) => {
        this.#token = null;
        throw error;
      },
    );
    return this.#token;
  }
}

/** @param {number} customer */
function ownerOf(customer) {
  return `customer-${customer}/`;
}

/**
 * @param {Record<string, any>} phones
 * @param {number} customer
 */
function without(phones, customer) {
  return Object.fromEntries(Object.entries(phones).filter(([id]) => id !== String(customer)));
}

/**
 * The same promise, whose errors of `fetch` are a `NoNetwork`.
 * @template T
 * @param {Promise<T>} work
 * @returns {Promise<T>}
 */
function asNetwork(work) {
  return work.catch((error) => {
    throw error instanceof TypeError || error?.name === 'TimeoutError' ? new NoNetwork(error) : error;
  });
}

/** @param {string} idToken */
function subjectOf(idToken) {
  return JSON.parse(atob(idToken.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))).sub;
}

/** The name of this phone for its user: `Chrome on Android`. */
function deviceName() {
  const agent = navigator.userAgent;
  const browser = firstOf(agent, { Edg: 'Edge', OPR: 'Opera', Firefox: 'Firefox', Chrome: 'Chrome', Safari: 'Safari' });
  const system = firstOf(agent, {
    Android: 'Android', iPhone: 'iPhone', iPad: 'iPad', Windows: 'Windows', Macintosh: 'Mac', Linux: 'Linux',
  });
  return `${browser ?? 'Browser'} (${system ?? '?'})`;
}

/**
 * @param {string} agent
 * @param {Record<string, string>} names
 */
function firstOf(agent, names) {
  return Object.entries(names).find(([part]) => agent.includes(part))?.[1];
}
