import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DeviceKey } from '../keys.js';
import { emptyState, Store } from '../store.js';
import { Authority, BOX, NOW, refusedAs } from './helping.js';

const device = await DeviceKey.generate();
const authority = await Authority.make();
const HOUR = 3_600_000;
const RENEW_AFTER = (NOW + 302_400) * 1000;
const NOTHING = { name: BOX, sequence: 0, generation: 0, listIat: 0, first: 1, next: 5 };

/** A store with the keys of an answer, and a clock that the test sets. */
async function filled(options) {
  const clock = { now: NOW * 1000 };
  const saved = [];
  const save = async (state) => saved.push(structuredClone(state));
  const store = new Store(emptyState(), save, () => clock.now);
  await store.takeKeys(await authority.answer(device.publicKey, options), '"1"', device.publicKey);
  return { store, clock, saved };
}

test('what the server answered is kept, and a store begins with it again', async () => {
  const { store, saved } = await filled();
  const again = new Store(saved.at(-1));
  assert.deepEqual(again.keyFor(BOX), store.keyFor(BOX));
  assert.equal(again.state.etag, '"1"');
  assert.equal(again.state.metServer, NOW * 1000);
  assert.equal(again.keyFor('box:1041:4'), null);
});

test('the key of another phone refuses the whole answer', async () => {
  const { store } = await filled();
  const before = structuredClone(store.state);
  const answer = await authority.answer((await DeviceKey.generate()).publicKey, { sequence: 2 });
  await assert.rejects(store.takeKeys(answer, '"2"', device.publicKey), refusedAs('other-key'));
  assert.deepEqual(store.state, before);
});

test('a key that holds now goes before one that ends later', async () => {
  const { store } = await filled();
  const [held] = store.state.keys;
  const later = { ...held, assignmentId: 4712, begins: held.expires, expires: held.expires + HOUR };
  const over = { ...held, assignmentId: 4710, begins: 0, expires: held.begins };
  store.state.keys = [later, over, held];
  assert.equal(store.keyFor(BOX).assignmentId, 4711);
  store.state.keys = [over, later];
  assert.equal(store.keyFor(BOX).assignmentId, 4712);
});

test('the box is brought what it does not have, the key set first and the newest list last', async () => {
  const receipt = await authority.receipt(3);
  const { store } = await filled({ sequence: 2, lists: [[5, NOW], [4, NOW]], receipt });
  const { keySet, lists } = store.state;
  const [newest, older] = lists.map(({ message }) => message);
  const brings = (changed) => store.artefactsFor({ ...NOTHING, ...changed });
  assert.deepEqual(brings({}), [keySet.message, older, newest, receipt]);
  assert.deepEqual(brings({ sequence: 2, generation: 5, listIat: NOW, first: 4 }), []);
  assert.deepEqual(brings({ sequence: 3, generation: 6, listIat: NOW, first: 4 }), []);
  assert.deepEqual(brings({ sequence: 2, generation: 5, listIat: NOW - 1, first: 4 }), [older, newest]);
  assert.deepEqual(brings({ sequence: 2, generation: 4, listIat: NOW, first: 4 }), [newest]);
  assert.deepEqual(brings({ sequence: 2, generation: 6, listIat: NOW - 1, first: 4 }), [newest]);
  assert.deepEqual(brings({ sequence: 2, generation: 5, listIat: NOW, first: 3 }), [receipt]);
  assert.deepEqual(brings({ sequence: 2, generation: 5, listIat: NOW, next: 3 }), []);
  assert.deepEqual(brings({ name: 'box:9:1' }), []);
});

test('a counter is higher than each before, and kept before it is sent', async () => {
  const { store, clock, saved } = await filled();
  assert.equal(await store.nextCounter(), clock.now);
  assert.equal(await store.nextCounter(), clock.now + 1);
  assert.equal(saved.at(-1).counter, clock.now + 1);
  clock.now -= HOUR;
  assert.equal(await store.nextCounter(), NOW * 1000 + 2);
  clock.now += 2 * HOUR;
  assert.equal(await store.nextCounter(), clock.now);
});

test('from renewAfter on the user is warned, until the phone meets the server', async () => {
  const { store, clock } = await filled();
  clock.now = RENEW_AFTER - 1;
  assert.deepEqual(store.overdue, []);
  clock.now = RENEW_AFTER;
  assert.deepEqual(store.overdue.map(({ assignmentId }) => assignmentId), [4711]);
  await store.haveMet('"1"');
  assert.deepEqual(store.overdue, []);
});

test('entries are kept once, until they are brought home', async () => {
  const { store } = await filled();
  for (const number of [2, 3, 5]) {
    const entry = { box: BOX, number, message: await authority.entry(number) };
    await store.keepEntry(entry);
    await store.keepEntry({ ...entry });
  }
  assert.deepEqual(store.state.entries.map(({ number }) => number), [2, 3, 5]);
  assert.equal(store.firstMissing(BOX, 1), 1);
  assert.equal(store.firstMissing(BOX, 2), 4);
  await store.broughtHome(store.state.entries.slice(0, 2), [await authority.receipt(3)]);
  assert.deepEqual(store.state.entries.map(({ number }) => number), [5]);
  assert.equal(store.firstMissing(BOX, 1), 4);
});

test('of two receipts the higher one stays', async () => {
  const { store } = await filled({ receipt: await authority.receipt(7) });
  await store.broughtHome([], [await authority.receipt(6)]);
  assert.deepEqual(store.state.receipts.map(({ number }) => number), [7]);
  await store.broughtHome([], [await authority.receipt(8)]);
  assert.deepEqual(store.state.receipts.map(({ number }) => number), [8]);
});
