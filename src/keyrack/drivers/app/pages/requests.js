/**
 * Requests of the driver: more time, or an earlier end. The fleet or its rule decides.
 */

import { el, fill } from '../dom.js';
import { t, when } from '../texts.js';
import { actionOf, done, fieldOf, formOf, problemOf } from './forms.js';
import { headOf, noticeOf } from './parts.js';

/**
 * @typedef {import('../app.js').App} App
 * @typedef {import('../kept.js').Car} Car
 *
 * @typedef {Object} DriverRequest one row of `GET /drive/api/requests`
 * @property {number} id
 * @property {number} customerId
 * @property {number} assignmentId
 * @property {'extend' | 'end'} kind
 * @property {string | null} end
 * @property {string | null} comment
 * @property {'open' | 'granted' | 'rejected' | 'withdrawn' | 'expired'} state
 * @property {string | null} reason why it was rejected
 */

const HOURS = [1, 2, 4, 24];

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const body = el('div', { class: 'stack' });
  const page = el('div', { class: 'requests' }, headOf(t('requests.title'), 'account'), body);
  await read(app, body);
  return page;
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Node[]} [before] what was just done
 */
async function read(app, body, before = []) {
  try {
    /** @type {DriverRequest[]} */
    const requests = await app.call('GET', '/drive/api/requests');
    const cars = app.cars.filter(({ end }) => end !== null);
    fill(body, ...before, ...cars.map((car) => carOf(app, body, car, requests)), listOf(app, body, requests));
  } catch (error) {
    fill(body, problemOf(error));
  }
}

/**
 * Ask for more time, or go to the return.
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Car} car
 * @param {DriverRequest[]} requests
 */
function carOf(app, body, car, requests) {
  const end = Date.parse(/** @type {string} */ (car.end));
  const isOpen = requests.some(({ assignmentId, state }) => assignmentId === car.assignmentId && state === 'open');
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, [car.name, car.licensePlate].filter(Boolean).join(' ')),
    el('p', { class: 'muted' }, t('requests.ends', { end: when(end, app.now()) })),
    isOpen ? el('p', {}, t('requests.waits')) : extensionOf(app, body, car, end),
    car.state === 'now' && el('a', { class: 'button quiet', href: `#return=${car.assignmentId}` }, t('requests.return')),
  );
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Car} car
 * @param {number} end
 */
function extensionOf(app, body, car, end) {
  const id = `hours-${car.assignmentId}`;
  const submit = async (/** @type {Record<string, string>} */ { hours, comment }) => {
    const wanted = new Date(end + Number(hours) * 3_600_000).toISOString();
    const { assignmentId, customerId } = car;
    await app.call('PUT', '/drive/api/requests', {
      assignmentId, kind: 'extend', end: wanted, comment: comment || null,
    }, { customer: customerId });
    await read(app, body, [done(t('requests.sent'))]);
  };
  return formOf(
    { label: t('requests.extend'), style: '', submit },
    el('div', { class: 'field' }, el('label', { for: id }, t('requests.until')), el(
      'select',
      { id, name: 'hours' },
      HOURS.map((hours) => el('option', { value: hours }, t('requests.hours', {
        hours, end: when(end + hours * 3_600_000, app.now()),
      }))),
    )),
    fieldOf(t('requests.comment'), { name: 'comment', maxlength: 250 }),
  );
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {DriverRequest[]} requests
 */
function listOf(app, body, requests) {
  if (requests.length === 0) return el('p', { class: 'muted' }, t('requests.none'));
  return el('ul', { class: 'rows' }, requests.map((request) => el(
    'li',
    { class: 'row' },
    el('span', { class: 'text' }, el('strong', {}, t(`requests.state.${request.state}`)), el('br'), textOf(app, request)),
    request.state === 'open' && actionOf(t('requests.withdraw'), async () => {
      await app.call('DELETE', `/drive/api/requests/${request.id}`, null, { customer: request.customerId });
      await read(app, body, [noticeOf('note', t('requests.withdrawn'), [])]);
    }, 'quiet'),
  )));
}

/**
 * @param {App} app
 * @param {DriverRequest} request
 */
function textOf(app, { assignmentId, kind, end, reason }) {
  const car = app.cars.find((each) => each.assignmentId === assignmentId);
  const what = kind === 'end' || end === null
    ? t('requests.kind.end')
    : t('requests.kind.extend', { end: when(Date.parse(end), app.now()) });
  return el('span', { class: 'muted small' }, [car?.name, what, reason].filter(Boolean).join(' · '));
}
