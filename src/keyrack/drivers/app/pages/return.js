/**
 * The return of a car: close it, deliver the log, end the booking.
 *
 * The order matters: a key of an ended booking no longer closes.
 */

import { act, endBooking, refreshAfterChange } from '../app.js';
import { announce, el, icon } from '../dom.js';
import { hasBox, momentOf } from '../moments.js';
import { t } from '../texts.js';
import { busyOf, momentNode, progressOf, situationOf } from './cars.js';
import { actionOf, confirmed } from './forms.js';
import { headOf, noticeOf } from './parts.js';

/**
 * @typedef {import('../app.js').App} App
 * @typedef {import('../kept.js').Car} Car
 * @typedef {'close' | 'deliver' | 'end'} Step
 */

/**
 * @param {App} app
 * @returns {Node}
 */
export function show(app) {
  const car = app.cars.find(({ assignmentId }) => String(assignmentId) === app.argument);
  const head = headOf(t('return.title'), 'requests');
  if (car === undefined || app.ended.includes(car.assignmentId)) return el('div', { class: 'return' }, head, ...goneOf());
  const next = nextOf(app, car);
  const isBusy = app.progress?.assignmentId === car.assignmentId;
  return el(
    'div',
    { class: 'return' },
    head,
    el('p', { class: 'muted' }, t('return.text', { car: [car.name, car.licensePlate].filter(Boolean).join(' ') })),
    el('ol', { class: 'rows steps' }, stepsOf(app, car).map(({ step, label, hint }, place, steps) => stepOf(
      { label, hint, number: place + 1, isNext: step === next },
      place < steps.findIndex((other) => other.step === next),
    ))),
    isBusy ? progressOf(app) : troubleOf(app, car),
    isBusy ? busyOf(app) : actionsOf(app, car, next),
  );
}

function goneOf() {
  return [noticeOf('good', t('return.gone'), []), el('a', { class: 'button main', href: '#' }, t('action.done'))];
}

/**
 * @param {App} app
 * @param {Car} car
 * @returns {Array<{step: Step, label: string, hint: string}>}
 */
function stepsOf(app, car) {
  const end = { step: /** @type {const} */ ('end'), label: t('return.end'), hint: '' };
  if (!hasBox(car)) return [{ step: 'close', label: t('return.hand-in'), hint: '' }, end];
  return [
    { step: 'close', label: t('return.close'), hint: canClose(app, car) ? '' : t('return.no-radio') },
    { step: 'deliver', label: t('return.deliver'), hint: app.isOnline ? '' : t('step.undelivered') },
    end,
  ];
}

/**
 * The next step. Without a box, or without Bluetooth, only the end is in the hands of the app.
 * @param {App} app
 * @param {Car} car
 * @returns {Step}
 */
function nextOf(app, car) {
  if (!canClose(app, car)) return 'end';
  if (app.outcomes.get(car.assignmentId)?.kind !== 'closed') return 'close';
  return app.held.get(car.assignmentId)?.isDelivered ? 'end' : 'deliver';
}

/**
 * @param {App} app
 * @param {Car} car
 */
function canClose(app, car) {
  return hasBox(car) && app.hasRadio;
}

/**
 * @param {{label: string, hint: string, number: number, isNext: boolean}} step
 * @param {boolean} isDone
 */
function stepOf({ label, hint, number, isNext }, isDone) {
  return el(
    'li',
    { class: isDone ? 'row good' : 'row', 'aria-current': isNext && 'step' },
    isDone ? icon('check') : el('span', { class: 'number', 'aria-hidden': 'true' }, number),
    el(
      'span',
      { class: 'text' },
      el('span', {}, label, isDone && el('span', { class: 'unseen' }, ` ${t('return.done')}`)),
      hint !== '' && !isDone && el('span', { class: 'muted small' }, hint),
    ),
  );
}

/**
 * Why the car is not closed, and what helps.
 * @param {App} app
 * @param {Car} car
 */
function troubleOf(app, car) {
  const kind = app.outcomes.get(car.assignmentId)?.kind;
  if (kind === undefined || kind === 'opened' || kind === 'closed') return null;
  return momentNode(app, car, momentOf(situationOf(app, car)));
}

/**
 * The next step at the thumb. The booking can be ended before, after a question.
 * @param {App} app
 * @param {Car} car
 * @param {Step} next
 */
function actionsOf(app, car, next) {
  const close = () => act('close', car); // at once after the tap: the browser opens its chooser only then
  return el(
    'div',
    { class: 'thumb' },
    next === 'close' && el(
      'button',
      { class: 'button main', type: 'button', 'data-key': 'main', on: { click: close } },
      icon('lock'),
      t('action.close'),
    ),
    next === 'deliver' && actionOf(t('return.deliver.now'), () => refreshAfterChange(), 'main'),
    actionOf(t('action.end'), () => end(app, car, next), next === 'end' ? 'main' : 'quiet'),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 * @param {Step} next
 */
async function end(app, car, next) {
  const step = { title: t('return.open'), text: t('return.open.text'), label: t('return.anyway') };
  if (next === 'close' && !(await confirmed(step))) return;
  await endBooking(car);
  announce(t('return.gone'));
  await refreshAfterChange();
}
