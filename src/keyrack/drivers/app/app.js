/**
 * The state of the app, which all pages share, and the contact with the server.
 *
 * Pages show what is kept, so the app starts at once and without a network. `refresh` then asks the server.
 */

import { ApiError, call, NoNetwork } from './api.js';
import { keep, readKept, removeAll } from './kept.js';
import { hasRadio, namesOf, Opener, transportOf } from './opening.js';
import { leaveServer, meetServer, phoneOf, replaceKey } from './phones.js';
import { forgetSubscription } from './push.js';
import { readCars } from './renewal.js';
import { setLanguage } from './texts.js';

/**
 * @typedef {import('./kept.js').Car} Car
 * @typedef {import('./kept.js').Kept} Kept
 * @typedef {import('./moments.js').HeldKey} HeldKey
 * @typedef {import('./opening.js').Command} Command
 * @typedef {import('./opening.js').Outcome} Outcome
 * @typedef {import('./opening.js').Phase} Phase
 * @typedef {import('./phone/phone.js').Phone} Phone
 *
 * @typedef {Object} Session the response of `GET /drive/api/session`
 * @property {{id: number, firstName: string, lastName: string, emailAddress: string}} user
 * @property {Array<{id: number, name: string, phone: string | null}>} customers
 * @property {number} sessionId
 * @property {boolean} hasPassword
 * @property {boolean} isOfProvider whether a provider has signed the driver in, who then cannot change the account
 * @property {string} recentUntil when the sign-in becomes too old for a new passkey
 * @property {number} passkeys
 * @property {string | null} language
 *
 * @typedef {Object} Settings the response of `GET /drive/api/settings`
 * @property {boolean} sendsMail
 * @property {boolean} hasPasskeys
 * @property {string | null} pushKey
 * @property {'bluetooth' | 'simulated'} radio
 * @property {Array<{customerId: number, id: number, name: string}>} providers
 * @property {string} serverTime
 *
 * @typedef {Object} Held what this phone holds for a car
 * @property {Phone} phone
 * @property {HeldKey | null} key
 * @property {string | null} withheld
 * @property {string[][]} names of the box, by the reach of a search
 * @property {boolean} isDelivered whether the server has all log entries
 *
 * @typedef {Object} Progress of the command that runs
 * @property {number} assignmentId
 * @property {Command} command
 * @property {Phase | null} phase null before the browser has shown its chooser
 * @property {boolean} isSlow
 */

const SLOW_MS = 10_000;
const CLOCK_MS = 2_000; // a smaller difference to the server is the duration of the call

/** @type {Promise<void> | null} the contact that runs */
let refreshing = null;

export const app = {
  /** @type {Session | null} the last known one; null if nobody has signed in here */
  session: null,
  /** whether the server accepts the session */
  isSignedIn: false,
  /** @type {Settings | null} null if the app has never reached the server */
  settings: null,
  isOnline: true,
  isRefreshing: false,
  hasRadio: hasRadio(),
  /** @type {Car[]} */
  cars: [],
  /** @type {Car[]} whose booking the fleet has ended before its time */
  cancelled: [],
  carsAt: 0,
  /** @type {Kept['phones']} */
  phones: {},
  clockOffset: 0,
  /** @type {Map<number, Held>} by assignment */
  held: new Map(),
  /** @type {Progress | null} */
  progress: null,
  /** @type {Map<number, Outcome>} of the last command, by assignment */
  outcomes: new Map(),
  /** @type {Map<number, number>} how far the search reaches, by assignment */
  reaches: new Map(),
  /** @type {number[]} assignments that the driver has ended */
  ended: [],
  /** @type {Opener | null} */
  opener: null,
  /** the part of the address after `=`: the assignment of `#return=12` */
  argument: '',
  /** the page to show after the sign-in */
  wanted: '',
  /** whether the driver wants no passkey */
  hasDeclinedPasskey: false,
  /** Show the present page again, if it is a live one. */
  show: async () => {},
  /** Show the present page again, whatever the driver has entered. */
  showAnew: async () => {},

  /** The time by the server's clock, in milliseconds since 1970. */
  now() {
    return Date.now() + app.clockOffset;
  },

  /** The response of an endpoint, as `api.js` describes it. @type {typeof call} */
  async call(...request) {
    try {
      return await call(...request);
    } catch (error) {
      if (isSignOut(error)) app.isSignedIn = false;
      throw error;
    }
  },

  /**
   * Go to a page: `app.go('phones')`; the main screen is ''.
   * @param {string} page
   */
  async go(page) {
    if (location.hash.slice(1) === page) return app.show();
    location.hash = page;
    return undefined;
  },

  /**
   * Go to a page in place of the present one, which makes no sense any more. The back button skips it.
   * @param {string} page
   */
  async goInstead(page) {
    if (location.hash.slice(1) === page) return app.show();
    location.replace(`#${page}`);
    return undefined;
  },

  /**
   * After a sign-in: read the session, show the cars, and fetch the keys.
   * @param {string} [page] to go to
   */
  async signedIn(page = '') {
    const before = location.hash;
    await refreshAfterChange();
    // It shows the cars before the keys are here, so the driver may have gone on
    if ([before, ''].includes(location.hash)) await app.goInstead(page);
  },

  /**
   * Sign out: nothing of the driver stays on this phone. It needs the server, which ends the session and gets the log.
   * @param {() => Promise<unknown>} [end] the call that ends the session; the deletion of the account ends it too
   */
  async signOut(end = () => call('DELETE', '/drive/api/session')) {
    await refreshing?.catch(() => undefined); // it would store the session again
    await leaveServer();
    await end().catch((error) => {
      if (error.status !== 401) throw error; // the session had ended before
    });
    await forgetSubscription().catch(() => undefined); // the server sends no more messages anyway
    await removeAll();
    takeKept(await readKept());
    app.held.clear();
    app.outcomes.clear();
    app.isSignedIn = false;
  },
};

/** @typedef {typeof app} App */

/**
 * Whether a call was rejected because the session has ended.
 * @param {unknown} error
 */
function isSignOut(error) {
  return error instanceof ApiError && error.status === 401 && error.code !== 'wrong-credentials';
}

/** Show what is kept. */
export async function start() {
  takeKept(await readKept());
  app.isSignedIn = app.session !== null;
  await prepare();
  await openRadio();
}

/** Ask the server for everything, and renew the keys. Several callers share one run. */
export function refresh() {
  refreshing ??= refreshOnce().finally(() => {
    refreshing = null;
  });
  return refreshing;
}

/**
 * Ask the server after a change. A run that began before may have missed it.
 * @returns {Promise<void>}
 */
export async function refreshAfterChange() {
  await refreshing?.catch(() => undefined);
  await refresh();
}

async function refreshOnce() {
  app.isRefreshing = true;
  try {
    await readServer();
    app.isOnline = true;
  } catch (error) {
    if (error instanceof NoNetwork) app.isOnline = false;
    else if (isSignOut(error)) app.isSignedIn = false;
    else throw error;
  } finally {
    app.isRefreshing = false;
    takeKept(await readKept());
    await prepare();
    await app.show();
  }
}

async function readServer() {
  await readSettings();
  await openRadio();
  /** @type {Session} */
  const session = await call('GET', '/drive/api/session');
  if (app.session !== null && app.session.user.id !== session.user.id) await removeAll(); // another driver
  takeKept(await keep(() => ({ session, settings: app.settings, clockOffset: app.clockOffset })));
  app.isSignedIn = true;
  await readCars();
  takeKept(await readKept());
  await prepare();
  await app.show(); // the cars appear before the keys are there
  await meetServer(session.customers.map(({ id }) => id));
}

/**
 * Read the cars alone, where the driver compares them with something else from the server.
 * @returns {Promise<void>}
 * @throws {ApiError | NoNetwork}
 */
export async function refreshCars() {
  await readCars();
  takeKept(await readKept());
  await prepare();
}

async function readSettings() {
  const before = Date.now();
  app.settings = await call('GET', '/drive/api/settings');
  const offset = Date.parse(/** @type {Settings} */ (app.settings).serverTime) - (before + Date.now()) / 2;
  app.clockOffset = Math.abs(offset) < CLOCK_MS ? 0 : Math.round(offset);
}

/** @param {Kept} kept */
function takeKept({ settings, ...others }) {
  Object.assign(app, others);
  app.settings = settings ?? app.settings;
  setLanguage(app.session?.language ?? null);
}

async function openRadio() {
  if (app.opener !== null || app.settings === null) return;
  const { radio } = app.settings;
  app.hasRadio = radio === 'simulated' || hasRadio();
  if (app.hasRadio) app.opener = new Opener(await transportOf(radio));
}

/** Read what this phone holds for each car, so that a tap finds it in memory. */
export async function prepare() {
  for (const car of app.cars) {
    if (car.productId !== null) app.held.set(car.assignmentId, await heldFor(car, car.productId));
  }
}

/**
 * @param {Car} car
 * @param {number} productId
 * @returns {Promise<Held>}
 */
async function heldFor({ customerId, assignmentId }, productId) {
  const { phone } = await phoneOf(customerId);
  const [state, overdue] = [await phone.store.state(), await phone.store.overdue()];
  const now = app.now();
  const isValid = (/** @type {{begins: number, expires: number}} */ key) => Number(key.begins <= now && now < key.expires);
  const keys = state.keys.filter((key) => key.productId === productId);
  const [key] = keys.sort((one, other) => isValid(other) - isValid(one) || other.expires - one.expires);
  return {
    phone,
    key: key === undefined ? null : {
      begins: key.begins,
      expires: key.expires,
      isOverdue: overdue.some(({ message }) => String(message) === String(key.message)),
    },
    withheld: key === undefined
      ? state.withheld.find((each) => each.assignmentId === assignmentId)?.reason ?? null
      : null,
    names: await namesOf(phone, productId, app.clockOffset),
    isDelivered: state.entries.length === 0,
  };
}

/**
 * Open or close a car. Call it at once after a tap, without an `await` before.
 * @param {Command} command
 * @param {Car} car
 */
export async function act(command, car) {
  const held = app.held.get(car.assignmentId);
  if (app.opener === null || held === undefined || app.progress !== null) return;
  const reach = app.reaches.get(car.assignmentId) ?? 0;
  app.progress = { assignmentId: car.assignmentId, command, phase: null, isSlow: false };
  const work = app.opener.act(command, {
    productId: /** @type {number} */ (car.productId),
    names: held.names[reach] ?? [],
    phone: held.phone,
    show: (phase) => setPhase(phase),
  });
  await app.show();
  const outcome = await work;
  app.progress = null;
  app.outcomes.set(car.assignmentId, outcome);
  if (outcome.kind === 'opened' || outcome.kind === 'closed') app.reaches.delete(car.assignmentId);
  await prepare(); // the phone has another entry of the log
  await app.show();
  await deliver(car);
}

/** @param {Phase} phase */
function setPhase(phase) {
  if (app.progress === null) return;
  app.progress.phase = phase;
  if (phase === 'searching') setTimeout(() => markSlow(), SLOW_MS);
  app.show();
}

function markSlow() {
  if (app.progress?.phase !== 'searching') return;
  app.progress.isSlow = true;
  app.show();
}

/**
 * Bring the log to the server. Without a network, the browser wakes the service worker when there is one again.
 * @param {Car} car
 */
async function deliver(car) {
  await navigator.storage?.persist?.().catch(() => false);
  try {
    await meetServer([car.customerId]);
    app.isOnline = true;
  } catch (error) {
    if (error instanceof NoNetwork) app.isOnline = false;
    await requestSync();
  }
  await prepare();
  await app.show();
}

async function requestSync() {
  const registration = /** @type {any} */ (await navigator.serviceWorker?.getRegistration('/drive/'));
  await registration?.sync?.register('log').catch(() => undefined); // not in all browsers
}

/**
 * Register this phone again, after it was removed.
 * @param {Car} car
 */
export async function registerAgain(car) {
  app.isRefreshing = true;
  await app.show();
  await replaceKey(car.customerId).catch(() => undefined); // the refresh says what is the matter
  await refresh();
}

/** The driver wants no passkey, and is not asked again on this phone. */
export async function declinePasskey() {
  takeKept(await keep(() => ({ hasDeclinedPasskey: true })));
  await app.show();
}

/** The driver has read that the fleet has ended these bookings. */
export async function dismissCancelled() {
  takeKept(await keep(() => ({ cancelled: [] })));
  await app.show();
}

/**
 * End a booking.
 * @param {Car} car
 * @throws {ApiError | NoNetwork}
 */
export async function endBooking({ assignmentId, customerId }) {
  await call('PUT', '/drive/api/requests', { assignmentId, kind: 'end' }, { customer: customerId });
  takeKept(await keep(({ ended }) => ({ ended: [...ended, assignmentId] })));
}
