/**
 * The driver's phones: which ones have keys.
 */

import { el, icon } from '../dom.js';
import { phoneOf, removePhone } from '../phones.js';
import { t, when } from '../texts.js';
import { actionOf, confirmed, done, showAfter, showProblem } from './forms.js';
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
 * @property {boolean} isThis whether it is in the driver's hand
 */

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const body = el('div', { class: 'stack' });
  const page = el('div', { class: 'phones' }, headOf(t('phones.title'), 'account'), body);
  await read(app, body);
  return page;
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {HTMLElement | null} [message] what was just done
 */
async function read(app, body, message = null) {
  try {
    showAfter(body, message, ...rowsOf(app, body, await readPhones(app)));
  } catch (error) {
    showProblem(body, error);
  }
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Phone[]} phones
 */
function rowsOf(app, body, phones) {
  if (phones.length === 0) return [el('p', { class: 'muted' }, t('phones.none'))];
  const remove = (/** @type {Phone} */ { customerId, id, name }) => async () => {
    const step = { title: t('phones.remove', { name }), text: t('phones.remove.text'), label: t('action.remove') };
    if (!(await confirmed(step))) return;
    await removePhone(customerId, id);
    await read(app, body, done(t('phones.removed')));
  };
  return [
    el('p', { class: 'muted' }, t('phones.text')),
    phones.some((phone) => isReplaced(phone, phones)) && el('p', { class: 'muted' }, t('phones.replaced.text')),
    el('ul', { class: 'rows' }, phones.map((phone) => el(
      'li',
      { class: 'row' },
      labelOf(app, phone, phones),
      !phone.isThis && actionOf(t('action.remove'), remove(phone), 'quiet'),
    ))),
    el('a', { class: 'button', href: '#lost' }, icon('warn'), t('lost.title')),
  ];
}

/**
 * The phones of the driver. The one in the hand is known by its key pair, which precedes its registration.
 * @param {App} app
 * @returns {Promise<Phone[]>}
 */
export async function readPhones(app) {
  /** @type {Array<Omit<Phone, 'isThis'>>} */
  const rows = await app.call('GET', '/drive/api/phones');
  return Promise.all(rows.map(async (row) => {
    const { phone } = await phoneOf(row.customerId);
    return { ...row, isThis: phone.device.id === row.id };
  }));
}

/**
 * Whether a newer phone may have replaced it: a phone that lost its key registers again, under the same name.
 * @param {Phone} phone
 * @param {Phone[]} phones of the driver; those of a customer by their registration
 */
function isReplaced(phone, phones) {
  const isSame = (/** @type {Phone} */ { customerId, name }) => customerId === phone.customerId && name === phone.name;
  return phones.findLast(isSame) !== phone;
}

/**
 * What identifies a phone for its owner.
 * @param {App} app
 * @param {Phone} phone
 * @param {Phone[]} phones all of the driver
 */
export function labelOf(app, phone, phones) {
  const fleet = app.session?.customers.find(({ id }) => id === phone.customerId)?.name;
  const isOfSeveral = (app.session?.customers.length ?? 0) > 1;
  const facts = [
    phone.isThis && t('phones.this'),
    isOfSeveral && fleet,
    t('phones.since', { time: when(Date.parse(phone.registered), app.now()) }),
    !phone.isApproved && t('phones.unapproved'),
    isReplaced(phone, phones) && !phone.isThis && t('phones.replaced'),
  ];
  return el(
    'span',
    { class: 'text' },
    el('strong', {}, phone.name),
    el('span', { class: 'muted small' }, facts.filter(Boolean).join(' · ')),
  );
}
