/**
 * The return of a car: close it, bring the log home, end the booking.
 *
 * The order matters: a key of an ended booking no longer closes.
 */

import { act, endBooking, refresh } from '../app.js';
import { el, icon } from '../dom.js';
import { t } from '../texts.js';
import { actionOf } from './forms.js';
import { headOf } from './parts.js';

/**
 * @typedef {import('../app.js').App} App
 * @typedef {import('../kept.js').Car} Car
 */

/**
 * @param {App} app
 * @returns {Node}
 */
export function show(app) {
  const car = app.cars.find(({ assignmentId }) => String(assignmentId) === app.argument);
  const head = headOf(t('return.title'));
  if (car === undefined) return el('div', { class: 'return' }, head, el('p', {}, t('return.gone')));
  const isClosed = app.outcomes.get(car.assignmentId)?.kind === 'closed';
  const isDelivered = isClosed && (app.held.get(car.assignmentId)?.isDelivered ?? false);
  return el(
    'div',
    { class: 'return' },
    head,
    el('p', { class: 'muted' }, t('return.text', { car: [car.name, car.licensePlate].filter(Boolean).join(' ') })),
    el(
      'ol',
      { class: 'rows steps' },
      stepOf(isClosed, t('return.close'), !isClosed && closing(app, car)),
      stepOf(isDelivered, t('return.deliver'), isClosed && !isDelivered && delivering(app)),
      stepOf(app.ended.includes(car.assignmentId), t('return.end'), ending(app, car, isClosed)),
    ),
  );
}

/**
 * @param {boolean} isDone
 * @param {string} label
 * @param {Node | false} action
 */
function stepOf(isDone, label, action) {
  return el(
    'li',
    { class: isDone ? 'row good' : 'row' },
    isDone ? icon('check') : icon('clock'),
    el('span', { class: 'text' }, label, isDone && el('span', { class: 'unseen' }, ` ${t('return.done')}`)),
    !isDone && action,
  );
}

/**
 * @param {App} app
 * @param {Car} car
 */
function closing(app, car) {
  const close = () => act('close', car); // at once after the tap: the browser opens its chooser only then
  return el('button', { class: 'button', type: 'button', 'data-key': 'close', on: { click: close } }, t('action.close'));
}

/** @param {App} app */
function delivering(app) {
  return app.isOnline
    ? actionOf(t('return.deliver.now'), () => refresh())
    : el('span', { class: 'muted small' }, t('step.undelivered'));
}

/**
 * The booking can be ended without a closing too, such as for a car without a box.
 * @param {App} app
 * @param {Car} car
 * @param {boolean} isClosed
 */
function ending(app, car, isClosed) {
  const end = async () => {
    await endBooking(car);
    await refresh();
    await app.go('');
  };
  return actionOf(t('action.end'), end, isClosed ? 'main' : 'quiet');
}
