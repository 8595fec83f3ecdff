/**
 * The moments of a driver at the car: from what the app knows to a text and buttons.
 *
 * The functions are pure. Each moment says what is the matter and what helps now; those with `needsHelp` also say who
 * helps. An opening without an answer is never called failed, because the box may have opened.
 */

import { t, when } from './texts.js';

/**
 * @typedef {import('./kept.js').Car} Car
 * @typedef {import('./kept.js').Registration} Registration
 * @typedef {import('./opening.js').Outcome} Outcome
 *
 * @typedef {Object} HeldKey the best key for the car's box, with times in milliseconds since 1970
 * @property {number} begins
 * @property {number} expires
 * @property {boolean} isOverdue whether it should have been renewed
 *
 * @typedef {Object} Situation
 * @property {number} now in milliseconds since 1970
 * @property {boolean} isOnline whether the last call reached the server
 * @property {boolean} isSignedIn
 * @property {boolean} hasRadio whether the browser has Bluetooth
 * @property {Car} car
 * @property {HeldKey | null} key
 * @property {string | null} withheld why the server issues no key
 * @property {Registration | null} phone null before the first contact with the server
 * @property {Outcome | null} outcome of the last command
 * @property {boolean} isDelivered whether the server has the log
 * @property {boolean} isEnded whether the driver has ended the booking
 * @property {number} reach how far the last search went; 2 is the widest
 *
 * @typedef {'open' | 'close' | 'search' | 'search-wider' | 'renew' | 'register' | 'sign-in' | 'phones' | 'it-is-open'
 *   | 'it-is-not' | 'return' | 'remind' | 'call' | 'update' | 'copy-link' | 'done'} Action
 *
 * @typedef {Object} Button
 * @property {Action} action
 * @property {string} label
 *
 * @typedef {Object} Moment
 * @property {string} id
 * @property {number} number 1 to 10; 0 if there is nothing special
 * @property {'good' | 'note' | 'warn' | 'bad'} tone
 * @property {string} title
 * @property {string} text
 * @property {Button | null} main the strong action; null if none helps
 * @property {Button[]} others
 * @property {Array<{label: string, isDone: boolean}>} steps of a return
 * @property {string | null} support the code for the fleet's support
 * @property {boolean} needsHelp whether the fleet can help
 */

const MINUTE = 60_000;
const RETURN_MS = 30 * MINUTE; // before the end of a booking

/** The moments by their ids: the number, the tone, and whether the fleet can help. */
const MOMENTS = /** @type {const} */ ({
  ready: [0, 'good', false],
  opened: [0, 'good', false],
  'no-web-bluetooth': [0, 'warn', true],
  'no-box': [0, 'warn', true],
  'signed-out': [0, 'warn', false],
  'app-old': [0, 'warn', false],
  'box-old': [0, 'bad', true],
  error: [0, 'bad', true],
  offline: [1, 'good', false],
  'offline-no-key': [1, 'warn', true],
  interrupted: [2, 'warn', false],
  unknown: [2, 'warn', false],
  'not-found': [3, 'warn', true],
  'no-bluetooth': [3, 'warn', false],
  'no-key': [4, 'warn', false],
  expired: [4, 'warn', true],
  overdue: [4, 'warn', false],
  refused: [4, 'warn', true],
  unapproved: [4, 'warn', true],
  removed: [4, 'warn', true],
  full: [4, 'warn', false],
  revoked: [5, 'bad', true],
  ended: [5, 'note', true],
  withheld: [5, 'bad', true],
  'not-allowed': [5, 'bad', true],
  'other-box': [6, 'warn', true],
  early: [7, 'note', false],
  'box-early': [7, 'note', true],
  uncertain: [7, 'warn', true],
  'no-effect': [8, 'bad', true],
  taken: [9, 'note', false],
  busy: [9, 'note', false],
  return: [10, 'note', false],
  closed: [10, 'good', false],
});

/** @typedef {keyof typeof MOMENTS} Id */

/** The moment of a box's rejection; the others need another key. @type {Record<string, Id>} */
const OF_CODE = {
  expired: 'expired',
  revoked: 'revoked',
  issuer: 'not-allowed',
  right: 'not-allowed',
  unknown: 'box-old',
  'not-yet': 'box-early',
  uncertain: 'uncertain',
  future: 'uncertain',
  busy: 'busy',
  counter: 'interrupted',
};

/** The moment of an outcome. @type {Record<Outcome['kind'], Id>} */
const OF_OUTCOME = {
  opened: 'opened',
  closed: 'closed',
  interrupted: 'interrupted',
  unknown: 'unknown',
  'not-found': 'not-found',
  'no-bluetooth': 'no-bluetooth',
  refused: 'refused',
  'other-box': 'other-box',
  'no-key': 'no-key',
  busy: 'busy',
  'app-old': 'app-old',
  'box-old': 'box-old',
  'no-effect': 'no-effect',
  error: 'error',
};

/** The strong action of each moment, where it is not the command itself. @type {Partial<Record<Id, Action | null>>} */
const MAIN = {
  'no-web-bluetooth': null,
  'no-box': null,
  'signed-out': 'sign-in',
  'app-old': 'update',
  'box-old': null,
  'offline-no-key': 'renew',
  'not-found': 'search',
  'no-key': 'renew',
  expired: 'renew',
  refused: 'renew',
  unapproved: 'renew',
  removed: 'register',
  full: 'phones',
  revoked: null,
  ended: null,
  withheld: null,
  'not-allowed': null,
  'other-box': 'search',
  early: null,
  uncertain: 'renew',
  taken: null,
  opened: 'close',
  closed: 'open',
  return: 'close',
};

/** Further actions. @type {Partial<Record<Id, Action[]>>} */
const OTHERS = {
  ready: ['close'],
  offline: ['close'],
  overdue: ['renew', 'close'],
  opened: ['it-is-not', 'open'],
  unknown: ['it-is-open'],
  'not-found': ['search-wider'],
  'other-box': ['search-wider'],
  'no-web-bluetooth': ['copy-link'],
  expired: ['open'],
  refused: ['open'],
  uncertain: ['open'],
  early: ['remind'],
  taken: ['remind'],
  return: ['open'],
  closed: ['return'],
};

/**
 * The moment of a situation.
 * @param {Situation} situation
 * @returns {Moment}
 */
export function momentOf(situation) {
  const id = situation.outcome === null ? readiness(situation) : afterwards(situation, situation.outcome);
  const [number, tone, needsHelp] = MOMENTS[id];
  const values = valuesOf(situation);
  return {
    id,
    number,
    tone,
    title: t(titleKey(id, situation), values),
    text: t(textKey(id, situation), values),
    main: mainOf(id, situation),
    others: (OTHERS[id] ?? []).filter((action) => isOffered(action, situation)).map(button),
    steps: id === 'closed' ? stepsOf(situation) : [],
    support: supportOf(number, situation.outcome),
    needsHelp,
  };
}

/**
 * Whether the car has a box that accepts keys: one that is enrolled.
 * @param {Car} car
 */
export function hasBox({ productId, boxName }) {
  return productId !== null && boxName !== null;
}

/**
 * What the app says before the tap.
 * @param {Situation} situation
 * @returns {Id}
 */
function readiness({ now, isOnline, isSignedIn, hasRadio, car, key, withheld, phone }) {
  if (isOver(car, now)) return 'ended';
  if (!hasBox(car)) return 'no-box';
  if (!hasRadio) return 'no-web-bluetooth';
  if (phone === 'removed' || phone === 'full' || phone === 'unapproved') return phone;
  if (withheld !== null) return 'withheld';
  if (Date.parse(car.start) > now) return car.isTaken ? 'taken' : 'early';
  if (key === null) return isSignedIn ? (isOnline ? 'no-key' : 'offline-no-key') : 'signed-out';
  if (key.expires <= now) return 'expired';
  if (key.isOverdue) return 'overdue';
  if (isNearEnd(car, now) && !isShort(car)) return 'return';
  return isOnline ? 'ready' : 'offline';
}

/**
 * What the app says after a command.
 * @param {Situation} situation
 * @param {Outcome} outcome
 * @returns {Id}
 */
function afterwards({ car, now }, { kind, code }) {
  if (kind !== 'refused') return OF_OUTCOME[kind];
  const id = OF_CODE[code ?? ''] ?? 'refused';
  return id === 'box-early' && Date.parse(car.start) > now ? 'early' : id;
}

/**
 * @param {Id} id
 * @param {Situation} situation
 */
function titleKey(id, { car }) {
  return id === 'taken' && car.takenUntil === null ? 'moment.taken.open' : `moment.${id}.title`;
}

/**
 * @param {Id} id
 * @param {Situation} situation
 */
function textKey(id, { outcome, isOnline, reach }) {
  if (id === 'interrupted' && outcome?.code === 'counter') return 'moment.interrupted.counter';
  if (id === 'not-found' && reach >= 1) return 'moment.not-found.wide';
  if (id === 'expired' && !isOnline) return 'moment.expired.offline';
  if (id === 'refused' && !isOnline) return 'moment.refused.offline';
  if (id === 'uncertain' && !isOnline) return 'moment.uncertain.offline';
  return `moment.${id}.text`;
}

/**
 * @param {Situation} situation
 * @returns {Record<string, string>}
 */
function valuesOf({ now, car, key, outcome, withheld }) {
  return {
    until: key === null ? '' : when(Math.min(key.expires, car.end === null ? Infinity : Date.parse(car.end)), now),
    start: when(Date.parse(car.start), now),
    end: car.end === null ? '' : when(Date.parse(car.end), now),
    taken: car.takenUntil === null ? '' : when(Date.parse(car.takenUntil), now),
    car: [car.licensePlate, car.name].find((name) => name !== null && name !== '') ?? '',
    at: outcome === null ? '' : when(outcome.at, now),
    reason: withheld ?? '',
  };
}

/**
 * @param {Id} id
 * @param {Situation} situation
 * @returns {Button | null}
 */
function mainOf(id, { outcome }) {
  const wanted = MAIN[id];
  if (wanted === null) return null;
  if (wanted !== undefined) return button(wanted);
  const command = outcome?.command ?? 'open';
  return { action: command, label: outcome === null ? t(`action.${command}`) : t(`action.${command}.again`) };
}

/**
 * @param {Action} action
 * @returns {Button}
 */
function button(action) {
  return { action, label: t(`action.${action}`) };
}

/**
 * Whether an action makes sense.
 * @param {Action} action
 * @param {Situation} situation
 */
function isOffered(action, { reach, isEnded, isSignedIn, outcome }) {
  if (action === 'search-wider') return reach < 2;
  if (action === 'return') return !isEnded && isSignedIn;
  if (action === 'it-is-open') return outcome?.command === 'open';
  return true;
}

/**
 * The three steps of a return.
 * @param {Situation} situation
 */
function stepsOf({ isDelivered, isEnded }) {
  return [
    { label: t('step.closed'), isDone: true },
    { label: t(isDelivered ? 'step.delivered' : 'step.undelivered'), isDone: isDelivered },
    { label: t(isEnded ? 'step.ended' : 'step.end'), isDone: isEnded },
  ];
}

/**
 * The code for the fleet's support: moment, code of the box, and time: `4-14 refused 2026-11-28T14:02Z`.
 * @param {number} number
 * @param {Outcome | null} outcome
 */
function supportOf(number, outcome) {
  if (outcome === null || outcome.kind === 'opened' || outcome.kind === 'closed') return null;
  const time = `${new Date(outcome.at).toISOString().slice(0, 16)}Z`;
  return `${number}-${outcome.number ?? 0} ${outcome.kind} ${time}`;
}

/**
 * @param {Car} car
 * @param {number} now
 */
function isOver({ end }, now) {
  return end !== null && Date.parse(end) <= now;
}

/**
 * Whether a booking is so short that its begin is already near its end. Its driver first needs to open the car.
 * @param {Car} car
 */
function isShort({ start, end }) {
  return end !== null && Date.parse(end) - Date.parse(start) <= RETURN_MS;
}

/**
 * @param {Car} car
 * @param {number} now
 */
function isNearEnd({ end }, now) {
  return end !== null && Date.parse(end) - now <= RETURN_MS;
}
