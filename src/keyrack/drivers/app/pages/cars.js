/**
 * The main screen: the car, whether it can be opened, and the button.
 */

import { act, dismissCancelled, refresh, registerAgain } from '../app.js';
import { announce, el, focusOn, icon } from '../dom.js';
import { momentOf } from '../moments.js';
import { outcome } from '../opening.js';
import { remind } from '../reminder.js';
import { period, t, when } from '../texts.js';
import { helpOf, noticeOf } from './parts.js';
import { passkeyOfferOf } from './passkey-offer.js';

/**
 * @typedef {import('../app.js').App} App
 * @typedef {import('../kept.js').Car} Car
 * @typedef {import('../moments.js').Action} Action
 * @typedef {import('../moments.js').Button} Button
 * @typedef {import('../moments.js').Moment} Moment
 */

/** @type {number | null} the assignment of the chosen car */
let chosen = null;
/** @type {string} the last announced title, so that each is announced once */
let announced = '';

/**
 * @param {App} app
 * @returns {Node}
 */
export function show(app) {
  const car = app.cars.find(({ assignmentId }) => assignmentId === chosen) ?? app.cars[0];
  return el(
    'div',
    { class: 'cars' },
    headOf(app),
    !app.isSignedIn && app.session !== null && !isSignInAsked(app, car) && signedOutOf(app),
    app.cancelled.length > 0 && cancelledOf(app),
    car === undefined ? noneOf(app) : carOf(app, car),
  );
}

/** @param {App} app */
function headOf(app) {
  const state = app.isRefreshing ? t('phase.renewing') : app.isOnline ? '' : t('app.offline');
  return el(
    'header',
    { class: 'head' },
    el(
      'p',
      { class: 'place small' },
      el('strong', {}, fleetOf(app)),
      state !== '' && el('span', { class: 'muted state' }, !app.isOnline && icon('offline'), state),
    ),
  );
}

/**
 * The fleet of the shown cars, or the app if there are several.
 * @param {App} app
 */
function fleetOf(app) {
  const [fleet, ...others] = app.session?.customers ?? [];
  return fleet !== undefined && others.length === 0 ? fleet.name : t('app.name');
}

/**
 * Whether the moment itself has the button of the sign-in.
 * @param {App} app
 * @param {Car | undefined} car
 */
function isSignInAsked(app, car) {
  return car !== undefined && momentOf(situationOf(app, car)).main?.action === 'sign-in';
}

/**
 * The session has ended, and the stored keys still open.
 * @param {App} app
 */
function signedOutOf(app) {
  return noticeOf('warn', t('app.signed-out'), [el('button', {
    class: 'button quiet', type: 'button', 'data-key': 'sign-in', on: { click: () => app.go('sign-in') },
  }, t('action.sign-in'))]);
}

/**
 * The bookings that the fleet has ended.
 * @param {App} app
 */
function cancelledOf(app) {
  const names = app.cancelled.map((car) => el('li', {}, car.end === null
    ? t('cancelled.open', { car: nameOf(car) })
    : t('cancelled.text', { car: nameOf(car), end: when(Date.parse(car.end), app.now()) })));
  return noticeOf('bad', t('cancelled.title'), [
    el('ul', { class: 'plain' }, names),
    helpOf(app.cancelled[0].fleetPhone, null),
    el('button', {
      class: 'button quiet', type: 'button', 'data-key': 'dismiss', on: { click: () => dismissCancelled() },
    }, t('action.done')),
  ]);
}

/**
 * What screen readers say before the moment.
 * @param {App} app
 */
function newsOf(app) {
  return app.cancelled.length > 0 ? `${t('cancelled.title')}. ` : '';
}

/** @param {App} app */
function noneOf(app) {
  const isRead = app.carsAt > 0;
  tell(`${newsOf(app)}${t(isRead ? 'cars.none.title' : 'cars.unread.title')}`);
  return el(
    'section',
    { class: 'none' },
    el('h1', {}, t(isRead ? 'cars.none.title' : 'cars.unread.title')),
    el('p', { class: 'muted' }, t(isRead ? 'cars.none.text' : 'cars.unread.text')),
    el('button', {
      class: 'button', type: 'button', 'data-key': 'retry', on: { click: () => refresh().catch(() => undefined) },
    }, t('cars.retry')),
    helpOf(app.session?.customers.find(({ phone }) => phone !== null)?.phone ?? null, null),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 */
function carOf(app, car) {
  const moment = momentOf(situationOf(app, car));
  const isOwn = app.progress?.assignmentId === car.assignmentId;
  const others = app.cars.filter((other) => other !== car);
  return el(
    'section',
    { class: 'car', 'aria-label': nameOf(car) },
    factsOf(app, car, isTrouble(moment)),
    isOwn ? progressOf(app) : momentNode(app, car, moment),
    !isOwn && !isTrouble(moment) && passkeyOfferOf(app),
    others.length > 0 && !isTrouble(moment) && othersOf(app, others),
    isOwn ? busyOf(app) : actionsOf(app, car, moment),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 * @returns {import('../moments.js').Situation}
 */
export function situationOf(app, car) {
  const held = app.held.get(car.assignmentId);
  return {
    now: app.now(),
    isOnline: app.isOnline,
    isSignedIn: app.isSignedIn,
    hasRadio: app.hasRadio,
    car,
    key: held?.key ?? null,
    withheld: held?.withheld ?? null,
    phone: app.phones[car.customerId]?.registration ?? null,
    outcome: app.outcomes.get(car.assignmentId) ?? null,
    isDelivered: held?.isDelivered ?? true,
    isEnded: app.ended.includes(car.assignmentId),
    reach: app.reaches.get(car.assignmentId) ?? 0,
  };
}

/**
 * Whether a command has not done what the driver wants: then the help is more important than the car.
 * @param {Moment} moment
 */
function isTrouble({ support }) {
  return support !== null;
}

/**
 * Which car it is, until when, and where it stands.
 * @param {App} app
 * @param {Car} car
 * @param {boolean} isShort
 */
function factsOf(app, car, isShort) {
  const { brand, model, licensePlate, place } = car;
  const kind = [brand, model].filter(Boolean).join(' ');
  const fleet = (app.session?.customers ?? []).find(({ id }) => id === car.customerId);
  const isOneOfSeveral = (app.session?.customers.length ?? 0) > 1;
  return el(
    'div',
    { class: 'card facts-of-car' },
    el('h1', {}, car.name),
    !isShort && kind !== '' && kind !== car.name && el('p', { class: 'muted' }, kind),
    licensePlate && plateOf(licensePlate),
    !isShort && el(
      'ul',
      { class: 'plain signs' },
      el('li', {}, icon('clock'), el('span', {}, periodOf(app, car))),
      place && el('li', {}, icon('pin'), placeOf(app, place)),
      isOneOfSeveral && fleet && el('li', {}, icon('person'), el('span', {}, fleet.name)),
    ),
  );
}

/** @param {string} plate */
function plateOf(plate) {
  return el(
    'p',
    { class: 'plate' },
    el('span', { class: 'unseen' }, t('cars.plate', { plate })),
    el('span', { 'aria-hidden': 'true' }, plate),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 */
function periodOf(app, { start, end }) {
  const begin = Date.parse(start);
  return end === null ? t('cars.from', { start: when(begin, app.now()) }) : period(begin, Date.parse(end), app.now());
}

/**
 * A link to the map app of the phone, so that this page asks no other host.
 * @param {App} app
 * @param {NonNullable<Car['place']>} place
 */
function placeOf(app, { latitude, longitude, time }) {
  const point = `${latitude},${longitude}`;
  return el(
    'a',
    { href: `geo:${point}?q=${point}`, 'data-key': 'place' },
    t('cars.place', { time: when(Date.parse(time), app.now()) }),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 * @param {Moment} moment
 */
export function momentNode(app, car, moment) {
  tell(`${newsOf(app)}${moment.title}. ${moment.text}`);
  return noticeOf(moment.tone, moment.title, [
    el('p', {}, moment.text),
    moment.steps.length > 0 && el('ol', { class: 'plain steps' }, moment.steps.map(({ label, isDone }) => el(
      'li',
      { class: isDone ? 'done' : '' },
      isDone ? icon('check') : icon('clock'),
      el('span', {}, label),
    ))),
    (moment.needsHelp || moment.support !== null) && helpOf(moment.needsHelp ? car.fleetPhone : null, moment.support),
  ]);
}

/** @param {App} app */
export function progressOf(app) {
  const { phase, isSlow } = /** @type {NonNullable<App['progress']>} */ (app.progress);
  const text = t(isSlow ? 'phase.slow' : `phase.${phase ?? 'searching'}`);
  tell(text);
  return noticeOf('note', t(`phase.${phase ?? 'searching'}`), [isSlow && el('p', {}, text)]);
}

/** @param {App} app */
export function busyOf(app) {
  const { command } = /** @type {NonNullable<App['progress']>} */ (app.progress);
  return el('div', { class: 'thumb' }, el('button', {
    class: 'button main', type: 'button', 'aria-disabled': 'true', 'data-key': 'main',
  }, el('span', { class: 'spinner', 'aria-hidden': 'true' }), t(`phase.${command === 'open' ? 'opening' : 'closing'}`)));
}

/**
 * The strong action at the thumb, and the others below it.
 * @param {App} app
 * @param {Car} car
 * @param {Moment} moment
 */
function actionsOf(app, car, { main, others }) {
  if (main === null && others.length === 0) return null;
  return el(
    'div',
    { class: 'thumb' },
    main && el('button', {
      class: 'button main', type: 'button', 'data-key': 'main', on: { click: () => run(app, car, main.action) },
    }, iconOf(main.action), main.label),
    others.length > 0 && el('div', { class: 'pair' }, others.map((button) => otherActionOf(app, car, button))),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 * @param {Button} button
 */
function otherActionOf(app, car, { action, label }) {
  return el('button', {
    class: 'button quiet', type: 'button', 'data-key': action, on: { click: () => run(app, car, action) },
  }, label);
}

/** @param {Action} action */
function iconOf(action) {
  if (action === 'open') return icon('unlock');
  return action === 'close' ? icon('lock') : null;
}

/**
 * The other cars, each of which replaces the shown one.
 * @param {App} app
 * @param {Car[]} cars
 */
function othersOf(app, cars) {
  return el(
    'nav',
    { class: 'others', 'aria-label': t('cars.others') },
    el('h2', {}, t('cars.others')),
    el('ul', { class: 'rows' }, cars.map((car) => el('li', {}, el(
      'button',
      { class: 'row', type: 'button', 'data-key': `car-${car.assignmentId}`, on: { click: () => choose(app, car) } },
      el(
        'span',
        { class: 'text' },
        el('strong', {}, car.name),
        el('span', { class: 'muted small' }, [car.licensePlate, periodOf(app, car)].filter(Boolean).join(' · ')),
      ),
      icon('next'),
    )))),
  );
}

/**
 * @param {App} app
 * @param {Car} car
 */
async function choose(app, car) {
  if (app.progress !== null) return;
  chosen = car.assignmentId;
  await app.show();
  focusOn(document.querySelector('main h1'));
  scrollTo(0, 0);
}

/**
 * @param {App} app
 * @param {Car} car
 * @param {Action} action
 */
function run(app, car, action) {
  if (action === 'open' || action === 'close') return act(action, car); // at once, as the chooser needs the tap
  if (action === 'search') return act(commandOf(app, car), car);
  if (action === 'search-wider') return searchWider(app, car);
  return runSlowly(app, car, action);
}

/**
 * @param {App} app
 * @param {Car} car
 */
function searchWider(app, car) {
  app.reaches.set(car.assignmentId, (app.reaches.get(car.assignmentId) ?? 0) + 1);
  return act(commandOf(app, car), car);
}

/**
 * @param {App} app
 * @param {Car} car
 */
function commandOf(app, car) {
  return app.outcomes.get(car.assignmentId)?.command ?? 'open';
}

/**
 * @param {App} app
 * @param {Car} car
 * @param {Action} action
 */
async function runSlowly(app, car, action) {
  if (action === 'renew') {
    app.outcomes.delete(car.assignmentId);
    await refresh().catch(() => undefined);
  } else if (action === 'register') await registerAgain(car);
  else if (action === 'sign-in') await app.go('sign-in');
  else if (action === 'phones') await app.go('phones');
  else if (action === 'update') location.reload();
  else if (action === 'remind') remind(nameOf(car), Date.parse(car.start));
  else if (action === 'copy-link') await copyAddress();
  else if (action === 'it-is-open') app.outcomes.set(car.assignmentId, outcome('open', 'opened'));
  else if (action === 'it-is-not') app.outcomes.set(car.assignmentId, outcome('open', 'no-effect'));
  else if (action === 'return') await app.go(`return=${car.assignmentId}`);
  await app.show();
}

async function copyAddress() {
  await navigator.clipboard?.writeText(location.origin + location.pathname);
  announce(t('support.copied'));
}

/** @param {Car} car */
function nameOf({ name, licensePlate }) {
  return [name, licensePlate].filter(Boolean).join(' ');
}

/**
 * Tell users of screen readers once.
 * @param {string} text
 */
function tell(text) {
  if (announced === text) return;
  announced = text;
  announce(text);
}
