/**
 * The account: who is signed in, the fleets, and the ways to everything that is not needed at the car.
 */

import { refreshAfterChange } from '../app.js';
import { el, icon } from '../dom.js';
import { isSubscribed, subscribe, unsubscribe } from '../push.js';
import { t } from '../texts.js';
import { actionOf } from './forms.js';
import { callOf, headOf } from './parts.js';

/** @typedef {import('../app.js').App} App */

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const { session } = app;
  if (session === null) return el('div', { class: 'account' }, headOf(t('app.account')), linkTo('sign-in', t('action.sign-in')));
  const { firstName, lastName, emailAddress } = session.user;
  return el(
    'div',
    { class: 'account' },
    headOf(t('app.account')),
    el(
      'section',
      { class: 'card' },
      el('h2', {}, [firstName, lastName].filter(Boolean).join(' ') || emailAddress),
      el('p', { class: 'muted' }, emailAddress),
      el('ul', { class: 'plain' }, session.customers.map(({ name, phone }) => el(
        'li', {}, name, phone !== null && [' · ', el('a', { href: callOf(phone) }, phone)],
      ))),
    ),
    el('nav', { 'aria-label': t('app.account') }, el('ul', { class: 'rows' }, [
      linkTo('lost', t('lost.title')),
      linkTo('phones', t('phones.title')),
      linkTo('requests', t('requests.title')),
      linkTo('security', t('security.title')),
      linkTo('privacy', t('privacy.title')),
    ].map((link) => el('li', {}, link)))),
    languageOf(app),
    await pushOf(app),
    el('p', { class: 'muted small' }, t('account.sign-out.hint')),
    actionOf(t('account.sign-out'), () => signOut(app)),
  );
}

/**
 * A row that leads to a page.
 * @param {string} page
 * @param {string} label
 */
export function linkTo(page, label) {
  return el('a', { class: 'row', href: `#${page}` }, el('span', { class: 'text' }, label), icon('next'));
}

/** @param {App} app */
function languageOf(app) {
  const choose = async (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.target);
    await app.call('PUT', '/drive/api/language', { language: value || null });
    await refreshAfterChange();
    await app.showAnew();
  };
  const chosen = app.session?.language ?? '';
  const choices = Object.entries({ '': t('account.language.browser'), en: 'English', de: 'Deutsch' });
  return el('div', { class: 'field' }, el('label', { for: 'language' }, t('account.language')), el(
    'select',
    { id: 'language', 'data-key': 'language', on: { change: choose } },
    choices.map(([value, label]) => el('option', { value, lang: value, selected: value === chosen }, label)),
  ));
}

/**
 * The switch of push messages, if the server sends them and the browser can receive them.
 * @param {App} app
 */
async function pushOf(app) {
  const key = app.settings?.pushKey;
  const isOn = await isSubscribed(key).catch(() => null);
  if (isOn === null) return null;
  const change = async () => {
    await (isOn ? unsubscribe() : subscribe(/** @type {string} */ (key)));
    await app.showAnew();
  };
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, t('push.title')),
    el('p', { class: 'muted' }, t(isOn ? 'push.on' : 'push.off')),
    actionOf(t(isOn ? 'push.end' : 'push.begin'), change),
  );
}

/** @param {App} app */
async function signOut(app) {
  await app.signOut();
  await app.go('sign-in');
}
