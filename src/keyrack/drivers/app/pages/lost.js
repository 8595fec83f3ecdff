/**
 * A lost phone: choose it, end its keys, and see which cars it may still open.
 */

import { el, fill } from '../dom.js';
import { t, when } from '../texts.js';
import { confirmed, done, formOf, Incomplete, showAfter, showProblem } from './forms.js';
import { headOf, noticeOf } from './parts.js';
import { labelOf, readPhones } from './phones.js';

/**
 * @typedef {import('../app.js').App} App
 * @typedef {import('./phones.js').Phone} Phone
 *
 * @typedef {Object} OpenableCar
 * @property {number} carId
 * @property {string} name
 * @property {string} opensUntil
 * @property {boolean} canPowerLossExtend
 */

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const body = el('div', { class: 'stack' });
  const page = el('div', { class: 'lost' }, headOf(t('lost.title'), 'account'), body);
  try {
    fill(body, ...choiceOf(app, body, await readPhones(app)));
  } catch (error) {
    showProblem(body, error);
  }
  return page;
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Phone[]} phones
 */
function choiceOf(app, body, phones) {
  if (phones.length === 0) return [el('p', {}, t('phones.none'))];
  const boxes = phones.map((phone) => el('input', {
    type: 'checkbox', name: 'phone', checked: !phone.isThis,
  }));
  const report = async () => {
    const chosen = phones.filter((_, place) => boxes[place].checked);
    if (chosen.length === 0) throw new Incomplete(t('lost.choose'));
    const hasThis = chosen.some((phone) => phone.isThis);
    const step = { title: t('lost.this'), text: t('lost.this.text'), label: t('lost.confirm') };
    if (hasThis && !(await confirmed(step))) return;
    const { cars } = await app.call('POST', '/drive/api/lost', {
      phones: chosen.map(({ customerId, id }) => ({ customerId, id })), endSessions: true,
    });
    showAfter(body, done(t('lost.done')), ...outcomeOf(app, cars));
  };
  return [
    el('p', {}, t('lost.text')),
    formOf({ label: t('lost.confirm'), style: 'danger', submit: report }, el(
      'fieldset',
      { class: 'rows' },
      el('legend', { class: 'unseen' }, t('lost.phones')),
      phones.map((phone, place) => el('label', { class: 'row check' }, boxes[place], labelOf(app, phone, phones))),
    )),
    el('p', { class: 'muted small' }, t('lost.sessions')),
  ];
}

/**
 * @param {App} app
 * @param {OpenableCar[]} cars
 */
function outcomeOf(app, cars) {
  const passkeys = (app.session?.passkeys ?? 0) > 0 && el('p', {}, t('lost.passkeys'), ' ', el(
    'a', { href: '#security' }, t('security.title'),
  ));
  if (cars.length === 0) return [el('p', {}, t('lost.none')), passkeys, home()];
  return [
    noticeOf('warn', t('lost.cars'), [
      el('ul', { class: 'plain' }, cars.map(({ name, opensUntil, canPowerLossExtend }) => el(
        'li', {}, t('lost.until', { car: name, until: when(Date.parse(opensUntil), app.now()) }),
        canPowerLossExtend && ` ${t('lost.power')}`,
      ))),
      el('p', {}, t('lost.sooner')),
    ]),
    passkeys,
    home(),
  ];
}

function home() {
  return el('a', { class: 'button main', href: '#' }, t('action.done'));
}
