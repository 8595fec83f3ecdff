/**
 * The pages by their names in the address. A page is a module with `show(app)`, which returns its node.
 */

import * as account from './account.js';
import * as cars from './cars.js';
import * as forgot from './forgot.js';
import * as link from './link.js';
import * as lost from './lost.js';
import * as phones from './phones.js';
import * as privacy from './privacy.js';
import * as provider from './provider.js';
import * as requests from './requests.js';
import * as returning from './return.js';
import * as security from './security.js';
import * as signIn from './sign-in.js';

/** @typedef {{show: (app: import('../app.js').App) => Node | Promise<Node>}} Page */

/** @type {Record<string, Page>} */
const PAGES = {
  '': cars,
  account,
  forgot,
  link,
  lost,
  phones,
  privacy,
  provider,
  requests,
  return: returning,
  security,
  'sign-in': signIn,
};

/** Pages that need no session. */
const PUBLIC = new Set(['sign-in', 'link', 'forgot', 'provider']);

/** @param {string} name */
export function isPublic(name) {
  return PUBLIC.has(name);
}

/**
 * The function that shows a page; the main screen for an unknown name.
 * @param {string} name
 */
export function pageOf(name) {
  return (PAGES[name] ?? cars).show;
}
