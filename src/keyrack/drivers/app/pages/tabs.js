/**
 * The bar at the bottom of the screen: one thumb reaches the cars, the booking and the account.
 */

import { el, fill, icon } from '../dom.js';
import { language, t } from '../texts.js';

/** @typedef {import('../app.js').App} App */

/** Pages that belong to a tab. The others belong to the account. @type {Record<string, string>} */
const TAB_OF = { '': '', requests: 'requests', return: 'requests' };
const PUBLIC = new Set(['sign-in', 'link', 'forgot']);

/**
 * Show the bar, or none before the sign-in. It changes with the page alone, so that it keeps the focus.
 * @param {App} app
 * @param {string} page
 */
export function showTabs(app, page) {
  const bar = /** @type {HTMLElement} */ (document.getElementById('tabs'));
  const isShown = app.session !== null && !PUBLIC.has(page);
  const state = isShown ? `${language()} ${page}` : '';
  if (bar.dataset.state === state) return;
  bar.dataset.state = state;
  bar.hidden = !isShown;
  bar.setAttribute('aria-label', t('tabs.label'));
  fill(bar, isShown && [
    tabOf('', 'car', t('tabs.cars'), page),
    tabOf('requests', 'clock', t('tabs.booking'), page),
    tabOf('account', 'person', t('app.account'), page),
  ]);
}

/**
 * @param {string} tab
 * @param {Parameters<typeof icon>[0]} sign
 * @param {string} label
 * @param {string} page that is shown
 */
function tabOf(tab, sign, label, page) {
  const isIn = (TAB_OF[page] ?? 'account') === tab;
  return el('a', { href: `#${tab}`, 'aria-current': isIn && (page === tab ? 'page' : 'true') }, icon(sign), label);
}
