/**
 * The driver's phones: which ones have keys.
 */

import { el, icon } from '../dom.js';
import { t, when } from '../texts.js';
import { problemOf } from './forms.js';
import { headOf } from './parts.js';

/**
 * @typedef {import('../app.js').App} App
 *
 * @typedef {Object} Phone one row of `GET /drive/api/phones`
 * @property {string} id
 * @property {number} customerId
 * @property {string} name
 * @property {string} registered
 * @property {boolean} isApproved
 */

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const page = el('div', { class: 'phones' }, headOf(t('phones.title'), 'account'));
  try {
    page.append(...rowsOf(app, await readPhones(app)));
  } catch (error) {
    page.append(problemOf(error));
  }
  return page;
}

/**
 * @param {App} app
 * @param {Phone[]} phones
 */
function rowsOf(app, phones) {
  if (phones.length === 0) return [el('p', { class: 'muted' }, t('phones.none'))];
  return [
    el('p', { class: 'muted' }, t('phones.text')),
    el('ul', { class: 'rows' }, phones.map((phone) => el('li', { class: 'row' }, labelOf(app, phone)))),
    el('a', { class: 'button', href: '#lost' }, icon('warn'), t('lost.title')),
  ];
}

/** @param {App} app @returns {Promise<Phone[]>} */
export function readPhones(app) {
  return app.call('GET', '/drive/api/phones');
}

/**
 * Whether it is the phone in the driver's hand.
 * @param {App} app
 * @param {Phone} phone
 */
export function isThisPhone(app, { customerId, id }) {
  return app.phones[customerId]?.id === id;
}

/**
 * What identifies a phone for its owner.
 * @param {App} app
 * @param {Phone} phone
 */
export function labelOf(app, phone) {
  const fleet = app.session?.customers.find(({ id }) => id === phone.customerId)?.name;
  const isOfSeveral = (app.session?.customers.length ?? 0) > 1;
  const facts = [
    isThisPhone(app, phone) && t('phones.this'),
    isOfSeveral && fleet,
    t('phones.since', { time: when(Date.parse(phone.registered), app.now()) }),
    !phone.isApproved && t('phones.unapproved'),
  ];
  return el(
    'span',
    { class: 'text' },
    el('strong', {}, phone.name),
    el('br'),
    el('span', { class: 'muted small' }, facts.filter(Boolean).join(' · ')),
  );
}
