/**
 * What all pages of the app share.
 */

import { ApiError, call, NoNetwork } from './api.js';
import { setLanguage } from './texts.js';

/**
 * @typedef {Object} Session the response of `GET /drive/api/session`
 * @property {{id: number, firstName: string, lastName: string, emailAddress: string}} user
 * @property {Array<{id: number, name: string, phone: string | null}>} customers
 * @property {number} sessionId
 * @property {boolean} hasPassword
 * @property {number} passkeys
 * @property {string | null} language
 *
 * @typedef {Object} Settings the response of `GET /drive/api/settings`
 * @property {boolean} sendsMail
 * @property {boolean} hasPasskeys
 * @property {string | null} pushKey
 * @property {'bluetooth' | 'simulated'} radio
 * @property {Array<{customerId?: number, id: string, name: string}>} providers
 * @property {string} serverTime
 */

export const app = {
  /** @type {Session | null} null if nobody is signed in */
  session: null,
  /** @type {Settings | null} null if the app has never reached the server */
  settings: null,
  isOnline: true,
  /** the part of the address after `=`: the secret of `#link=secret` */
  argument: '',
  call,
  /** Show the present page again. */
  show: async () => {},

  /**
   * Go to a page: `app.go('phones')`; the main screen is ''.
   * @param {string} page
   */
  go(page) {
    if (location.hash.slice(1) === page) return app.show();
    location.hash = page;
    return Promise.resolve();
  },

  /** After a sign-in: read the session, and show the cars. */
  async signedIn() {
    await readSession();
    await app.go('');
  },

  /** After the end of the session. */
  async signedOut() {
    app.session = null;
    await app.go('sign-in');
  },
};

/** @typedef {typeof app} App */

/** Read the settings and the session. */
export async function start() {
  try {
    app.settings = await call('GET', '/drive/api/settings');
    await readSession();
  } catch (error) {
    if (!(error instanceof NoNetwork)) throw error;
    app.isOnline = false;
  }
}

/** Read the session; null if there is none. */
async function readSession() {
  try {
    app.session = await call('GET', '/drive/api/session');
    setLanguage(app.session?.language ?? null);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 401)) throw error;
    app.session = null;
  }
}
