/**
 * Requests of the driver: more time, or an earlier end. The fleet or its rule decides.
 */

import { refreshAfterChange, refreshCars } from '../app.js';
import { el } from '../dom.js';
import { t, when } from '../texts.js';
import { actionOf, done, fieldOf, formOf, Incomplete, showAfter, showProblem } from './forms.js';
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
 * @property {string | null} errorCode why a granted request could not be carried out
 */

const HOURS = [1, 2, 3, 4, 8, 24];
const OTHER = 'other'; // a time of the driver's choice

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
 * @param {HTMLElement | null} [message] what was just done
 */
async function read(app, body, message = null) {
  try {
    /** @type {DriverRequest[]} */
    const requests = await app.call('GET', '/drive/api/requests');
    await refreshCars(); // a granted request has changed one
    const cars = app.cars.filter(({ assignmentId }) => !app.ended.includes(assignmentId));
    showAfter(
      body, message, cars.length === 0 && noneOf(), ...cars.map((car) => carOf(app, body, car, requests)),
      listOf(app, body, requests),
    );
  } catch (error) {
    showProblem(body, error);
  }
}

function noneOf() {
  return el('p', { class: 'muted' }, t('cars.none.text'));
}

/**
 * Ask for more time, or go to the return.
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Car} car
 * @param {DriverRequest[]} requests
 */
function carOf(app, body, car, requests) {
  const end = car.end === null ? null : Date.parse(car.end);
  const isOpen = requests.some(({ assignmentId, state }) => assignmentId === car.assignmentId && state === 'open');
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, [car.name, car.licensePlate].filter(Boolean).join(' ')),
    el('p', { class: 'muted' }, end === null ? t('requests.endless') : t('requests.ends', { end: when(end, app.now()) })),
    car.state === 'now' && el('a', { class: 'button', href: `#return=${car.assignmentId}` }, t('action.return')),
    end !== null && (isOpen ? el('p', {}, t('requests.waits')) : extensionOf(app, body, car, end)),
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
  const submit = async (/** @type {Record<string, string>} */ { hours, time, comment }) => {
    const wanted = hours === OTHER ? Date.parse(time) : end + Number(hours) * 3_600_000;
    if (!(wanted > end)) throw new Incomplete(t('requests.later', { end: when(end, app.now()) }));
    const { assignmentId, customerId } = car;
    const { state } = await app.call('PUT', '/drive/api/requests', {
      assignmentId, kind: 'extend', end: new Date(wanted).toISOString(), comment: comment || null,
    }, { customer: customerId });
    const isGranted = state === 'granted';
    if (isGranted) await refreshAfterChange();
    await read(app, body, done(isGranted ? t('requests.granted') : t('requests.sent')));
  };
  const time = fieldOf(t('requests.time'), { name: 'time', type: 'datetime-local', value: localTime(end + 3_600_000) });
  time.hidden = true;
  const choose = (/** @type {Event} */ { target }) => {
    time.hidden = /** @type {HTMLSelectElement} */ (target).value !== OTHER;
  };
  return formOf(
    { label: t('requests.extend'), style: '', submit },
    el('div', { class: 'field' }, el('label', { for: id }, t('requests.until')), el(
      'select',
      { id, name: 'hours', on: { change: choose } },
      HOURS.map((hours) => el('option', { value: hours }, t('requests.hours', {
        hours, end: when(end + hours * 3_600_000, app.now()),
      }))),
      el('option', { value: OTHER }, t('requests.other')),
    )),
    time,
    fieldOf(t('requests.comment'), { name: 'comment', maxlength: 250 }),
  );
}

/**
 * The value of a field for date and time, which has no time zone.
 * @param {number} time in milliseconds since 1970
 */
function localTime(time) {
  return new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {DriverRequest[]} requests
 */
function listOf(app, body, requests) {
  if (requests.length === 0) return el('p', { class: 'muted' }, t('requests.none'));
  return el('section', { class: 'stack' }, el('h2', {}, t('requests.list')), el('ul', { class: 'rows' }, requests.map((request) => el(
    'li',
    { class: 'row' },
    el('span', { class: 'text' }, el('strong', {}, t(`requests.state.${request.state}`)), textOf(app, request)),
    request.state === 'open' && actionOf(t('requests.withdraw'), async () => {
      await app.call('DELETE', `/drive/api/requests/${request.id}`, null, { customer: request.customerId });
      await read(app, body, noticeOf('note', t('requests.withdrawn'), []));
    }, 'quiet'),
  ))));
}

/**
 * @param {App} app
 * @param {DriverRequest} request
 */
function textOf(app, { assignmentId, kind, end, comment, reason, errorCode }) {
  const car = app.cars.find((each) => each.assignmentId === assignmentId);
  const what = kind === 'end' || end === null
    ? t('requests.kind.end')
    : t('requests.kind.extend', { end: when(Date.parse(end), app.now()) });
  const said = [comment && t('requests.said', { comment }), reason && t('requests.reason', { reason })];
  const failure = errorCode && t('requests.failed', { code: errorCode });
  return [
    el('span', { class: 'muted small' }, [car?.name, what].filter(Boolean).join(' · ')),
    [...said, failure].filter(Boolean).map((line) => el('span', { class: 'muted small' }, line)),
  ].flat();
}
