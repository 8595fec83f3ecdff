/**
 * The pages by their names in the address. A page is a module with `show(app)`, which returns its node.
 */

import * as cars from './cars.js';

/** @typedef {{show: (app: import('../app.js').App) => Node | Promise<Node>}} Page */

/** @type {Record<string, Page>} */
const PAGES = {
  '': cars,
};

/** Pages that need no session. */
const PUBLIC = new Set(['sign-in', 'link', 'forgot']);

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
