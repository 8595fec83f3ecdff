/**
 * The return from a provider: `/drive/sso` with the provider's answer, which the start of the app moves behind `#`.
 */

import { el } from '../dom.js';
import { t } from '../texts.js';
import { problemOf } from './forms.js';
import { goOn } from './sign-in.js';

/** @typedef {import('../app.js').App} App */

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const query = app.argument;
  history.replaceState(null, '', '#provider'); // the answer is valid once
  try {
    if (query !== '') await app.call('POST', '/drive/api/sso/session', { query });
    await (query !== '' ? goOn(app) : app.go('sign-in'));
  } catch (error) {
    return el('div', { class: 'sign-in' },
      el('header', { class: 'welcome' }, el('h1', {}, t('sign-in.title'))), problemOf(error),
      el('a', { class: 'button main', href: '#sign-in' }, t('action.sign-in')));
  }
  return el('p', { class: 'muted wait' }, t('app.loading'));
}
