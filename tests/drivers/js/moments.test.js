/** The ten moments, in both languages: which one it is, its buttons, and that each text exists. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { momentOf } from '../moments.js';
import { ENGLISH, setLanguage } from '../texts.js';
import { GERMAN } from '../texts-de.js';

const NOW = Date.parse('2026-11-28T12:00:00Z');
const HOUR = 3_600_000;
const at = (hours) => new Date(NOW + hours * HOUR).toISOString();
const CAR = {
  assignmentId: 1, customerId: 7, carId: 12, name: 'Pool 2', licensePlate: 'K-AB 2', brand: 'VW', model: 'Golf',
  start: at(-2), end: at(6), state: 'now', isTaken: false, takenUntil: null, place: null, productId: 1041, boxName: 'Box',
  opensUntil: at(6), fleetPhone: '+49 221 1',
};
const KEY = { begins: NOW - HOUR, expires: NOW + 6 * HOUR, isOverdue: false };
const SITUATION = {
  now: NOW, isOnline: true, isSignedIn: true, hasRadio: true, car: CAR, key: KEY, withheld: null, phone: 'ready',
  outcome: null, isDelivered: true, isEnded: false, reach: 0,
};
const outcome = (kind, more = {}) => ({ kind, command: 'open', at: NOW, ...more });
const refused = (code, number) => outcome('refused', { code, number });

/** name, changes of the situation, the number, the id, the main action */
const CASES = [
  ['ready', {}, 0, 'ready', 'open'],
  ['no network, with a key', { isOnline: false }, 1, 'offline', 'open'],
  ['no network, no key', { isOnline: false, key: null }, 1, 'offline-no-key', 'renew'],
  ['the link was lost before the command', { outcome: outcome('interrupted') }, 2, 'interrupted', 'open'],
  ['the command got no answer', { outcome: outcome('unknown') }, 2, 'unknown', 'open'],
  ['the counter is too low', { outcome: refused('counter', 24) }, 2, 'interrupted', 'open'],
  ['no box in the chooser', { outcome: outcome('not-found') }, 3, 'not-found', 'search'],
  ['Bluetooth is off', { outcome: outcome('no-bluetooth') }, 3, 'no-bluetooth', 'open'],
  ['no key yet', { key: null }, 4, 'no-key', 'renew'],
  ['the key has expired', { key: { ...KEY, expires: NOW - 1 } }, 4, 'expired', 'renew'],
  ['the key should have been renewed', { key: { ...KEY, isOverdue: true } }, 4, 'overdue', 'open'],
  ['the box says expired', { outcome: refused('expired', 14) }, 4, 'expired', 'renew'],
  ['the box says stale', { outcome: refused('stale', 19) }, 4, 'refused', 'renew'],
  ['the box lacks the list', { outcome: refused('list', 16) }, 4, 'refused', 'renew'],
  ['the box lacks the place', { outcome: refused('index', 17) }, 4, 'refused', 'renew'],
  ['the box does not know the signer', { outcome: refused('issuing-key', 9) }, 4, 'refused', 'renew'],
  ['the box was set up again', { outcome: outcome('no-key') }, 4, 'no-key', 'renew'],
  ['the phone waits for approval', { phone: 'unapproved', key: null }, 4, 'unapproved', 'renew'],
  ['the phone was removed', { phone: 'removed', key: null }, 4, 'removed', 'register'],
  ['too many phones', { phone: 'full', key: null }, 4, 'full', 'phones'],
  ['revoked', { outcome: refused('revoked', 18) }, 5, 'revoked', null],
  ['the booking is over', { car: { ...CAR, end: at(-1) } }, 5, 'ended', null],
  ['the server withholds the key', { key: null, withheld: 'too-many' }, 5, 'withheld', null],
  ['the key lacks the right', { outcome: refused('right', 20) }, 5, 'not-allowed', null],
  ['another customer', { outcome: refused('issuer', 10) }, 5, 'not-allowed', null],
  ['the wrong car', { outcome: outcome('other-box', { detail: 'box:9:1' }) }, 6, 'other-box', 'search'],
  ['too early', { car: { ...CAR, start: at(2), state: 'next' } }, 7, 'early', null],
  ['too early by the box', { outcome: refused('not-yet', 13) }, 7, 'box-early', 'open'],
  ['the clock of the box is uncertain', { outcome: refused('uncertain', 15) }, 7, 'uncertain', 'renew'],
  ['the clock of the box is behind', { outcome: refused('future', 12) }, 7, 'uncertain', 'renew'],
  ['open without an effect', { outcome: outcome('no-effect') }, 8, 'no-effect', 'open'],
  ['somebody else has the car', { car: { ...CAR, start: at(2), isTaken: true, takenUntil: at(1) } }, 9, 'taken', null],
  ['somebody has the car without an end', { car: { ...CAR, start: at(2), isTaken: true } }, 9, 'taken', null],
  ['two drivers have the car now', { car: { ...CAR, isTaken: true, takenUntil: at(1) } }, 0, 'ready', 'open'],
  ['the box is busy', { outcome: outcome('busy') }, 9, 'busy', 'open'],
  ['the box answers that it is busy', { outcome: refused('busy', 27) }, 9, 'busy', 'open'],
  ['the booking ends soon', { car: { ...CAR, end: at(0.4) } }, 10, 'return', 'close'],
  ['a booking of 25 minutes', { car: { ...CAR, start: at(-0.1), end: at(0.3) } }, 0, 'ready', 'open'],
  ['closed', { outcome: outcome('closed', { command: 'close' }) }, 10, 'closed', 'open'],
  ['opened', { outcome: outcome('opened') }, 0, 'opened', 'close'],
  ['no Web Bluetooth', { hasRadio: false }, 0, 'no-web-bluetooth', null],
  ['no box', { car: { ...CAR, productId: null } }, 0, 'no-box', null],
  ['a box that is not enrolled', { car: { ...CAR, boxName: null } }, 0, 'no-box', null],
  ['signed out, no key', { isSignedIn: false, key: null }, 0, 'signed-out', 'sign-in'],
  ['the app is too old', { outcome: outcome('app-old') }, 0, 'app-old', 'update'],
  ['the box is too old', { outcome: outcome('box-old') }, 0, 'box-old', null],
  ['an error', { outcome: outcome('error', { code: 'structure' }) }, 0, 'error', 'open'],
];

beforeEach(() => setLanguage('en'));

for (const [name, changes, number, id, action] of CASES) {
  test(`${name}: moment ${number}, ${id}`, () => {
    const moments = ['en', 'de'].map((language) => {
      setLanguage(language);
      return momentOf({ ...SITUATION, ...changes });
    });
    for (const moment of moments) {
      assert.deepEqual([moment.number, moment.id, moment.main?.action ?? null], [number, id, action]);
      const texts = [moment.title, moment.text, ...[moment.main, ...moment.others].flatMap((each) => each?.label ?? [])];
      for (const text of texts) assert.doesNotMatch(text, /undefined|\{|Invalid|^$/);
    }
    assert.notEqual(moments[0].title + moments[0].text, moments[1].title + moments[1].text);
  });
}

test('all ten moments occur', () => {
  assert.deepEqual([...new Set(CASES.map(([, , number]) => number))].sort((a, b) => a - b), [...Array(11).keys()]);
});

test('both languages have the same texts with the same placeholders', () => {
  assert.deepEqual(Object.keys(GERMAN).sort(), Object.keys(ENGLISH).sort());
  const placeholders = (text) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  for (const key of Object.keys(ENGLISH)) assert.deepEqual(placeholders(GERMAN[key]), placeholders(ENGLISH[key]), key);
});

test('an opening without an answer is never called failed', () => {
  for (const kind of ['unknown', 'interrupted']) {
    for (const language of ['en', 'de']) {
      setLanguage(language);
      const { title, text } = momentOf({ ...SITUATION, outcome: outcome(kind) });
      assert.doesNotMatch(title + text, /fail|error|fehl|gescheitert/i);
    }
  }
  const unknown = momentOf({ ...SITUATION, outcome: outcome('unknown') });
  assert.deepEqual([unknown.main.action, unknown.others.map(({ action }) => action)], ['open', ['it-is-open']]);
});

test('the wider search is offered twice, then the list has all boxes', () => {
  const offered = [0, 1, 2].map((reach) => {
    const { others } = momentOf({ ...SITUATION, reach, outcome: outcome('not-found') });
    return others.some(({ action }) => action === 'search-wider');
  });
  assert.deepEqual(offered, [true, true, false]);
});

test('a return has three steps, which are ticked one by one', () => {
  const steps = (changes) => momentOf({ ...SITUATION, outcome: outcome('closed'), ...changes })
    .steps.map(({ isDone }) => isDone);
  assert.deepEqual(steps({ isDelivered: false }), [true, false, false]);
  assert.deepEqual(steps({}), [true, true, false]);
  assert.deepEqual(steps({ isEnded: true }), [true, true, true]);
});

test('a problem has a code for support with the number of the rejection and the time', () => {
  assert.equal(momentOf({ ...SITUATION, outcome: refused('revoked', 18) }).support, '5-18 refused 2026-11-28T12:00Z');
  assert.equal(momentOf({ ...SITUATION, outcome: outcome('opened') }).support, null);
  assert.equal(momentOf(SITUATION).support, null);
});

test('the promise of an opening ends with the key and with the booking', () => {
  const text = (changes) => momentOf({ ...SITUATION, ...changes }).text;
  const until = (hours) => new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' }).format(NOW + hours * HOUR);
  assert.ok(text({ key: { ...KEY, expires: NOW + HOUR } }).includes(until(1)));
  assert.ok(text({ key: { ...KEY, expires: NOW + 90 * HOUR } }).includes(until(6)));
});
