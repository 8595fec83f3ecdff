import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DeviceKey } from '../keys.js';
import { MemoryRecords, Store } from '../store.js';
import { Authority, BOX, NOW, refusedAs } from './helping.js';

const device = await DeviceKey.generate();
const authority = await Authority.make();
const HOUR = 3_600_000;
const RENEW_AFTER = (NOW + 302_400) * 1000;
const NOTHING = { name: BOX, sequence: 0, generation: 0, listIat: 0, first: 1, next: 5 };

/** A store with the keys of an answer, and a clock that the test sets. */
async function filled(options) {
  const clock = { now: NOW * 1000 };
  const records = new MemoryRecords();
  const store = new Store(records, () => clock.now);
  await store.takeKeys(await authority.answer(device.publicKey, options), '"1"', device.publicKey);
  return { store, clock, records };
}

test('what the server answered is kept, and a store begins with it again', async () => {
  const { store, records } = await filled();
  const again = new Store(records);
  assert.deepEqual(await again.keyFor(BOX), await store.keyFor(BOX));
  const { etag, metServer } = await again.state();
  assert.deepEqual([etag, metServer], ['"1"', NOW * 1000]);
  assert.equal(await again.keyFor('box:1041:4'), null);
});

test('the key of another phone refuses the whole answer', async () => {
  const { store } = await filled();
  const before = await store.state();
  const answer = await authority.answer((await DeviceKey.generate()).publicKey, { sequence: 2 });
  await assert.rejects(store.takeKeys(answer, '"2"', device.publicKey), refusedAs('other-key'));
  assert.deepEqual(await store.state(), before);
});

test('a key that holds now goes before one that ends later', async () => {
  const { store, records } = await filled();
  const { keys: [held] } = await store.state();
  const putKeys = (...keys) => records.change((state) => Object.assign(state, { keys }));
  const later = { ...held, assignmentId: 4712, begins: held.expires, expires: held.expires + HOUR };
  const over = { ...held, assignmentId: 4710, begins: 0, expires: held.begins };
  await putKeys(later, over, held);
  assert.equal((await store.keyFor(BOX)).assignmentId, 4711);
  await putKeys(over, later);
  assert.equal((await store.keyFor(BOX)).assignmentId, 4712);
});

test('the box is brought what it does not have, the key set first and the newest list last', async () => {
  const receipt = await authority.receipt(3);
  const { store } = await filled({ sequence: 2, lists: [[5, NOW], [4, NOW]], receipt });
  const { keySet, lists } = await store.state();
  const [newest, older] = lists.map(({ message }) => message);
  const brings = (changed) => store.artefactsFor({ ...NOTHING, ...changed });
  assert.deepEqual(await brings({}), [keySet.message, older, newest, receipt]);
  assert.deepEqual(await brings({ sequence: 2, generation: 5, listIat: NOW, first: 4 }), []);
  assert.deepEqual(await brings({ sequence: 3, generation: 6, listIat: NOW, first: 4 }), []);
  assert.deepEqual(await brings({ sequence: 2, generation: 5, listIat: NOW - 1, first: 4 }), [older, newest]);
  assert.deepEqual(await brings({ sequence: 2, generation: 4, listIat: NOW, first: 4 }), [newest]);
  assert.deepEqual(await brings({ sequence: 2, generation: 6, listIat: NOW - 1, first: 4 }), [newest]);
  assert.deepEqual(await brings({ sequence: 2, generation: 5, listIat: NOW, first: 3 }), [receipt]);
  assert.deepEqual(await brings({ sequence: 2, generation: 5, listIat: NOW, next: 3 }), []);
  assert.deepEqual(await brings({ name: 'box:9:1' }), []);
});

test('a counter is higher than each before, and kept before it is sent', async () => {
  const { store, clock } = await filled();
  assert.equal(await store.nextCounter(), clock.now);
  assert.equal(await store.nextCounter(), clock.now + 1);
  assert.equal((await store.state()).counter, clock.now + 1);
  clock.now -= HOUR;
  assert.equal(await store.nextCounter(), NOW * 1000 + 2);
  clock.now += 2 * HOUR;
  assert.equal(await store.nextCounter(), clock.now);
});

test('from renewAfter on the user is warned, until the phone meets the server', async () => {
  const { store, clock } = await filled();
  clock.now = RENEW_AFTER - 1;
  assert.deepEqual(await store.overdue(), []);
  clock.now = RENEW_AFTER;
  assert.deepEqual((await store.overdue()).map(({ assignmentId }) => assignmentId), [4711]);
  await store.haveMet();
  assert.deepEqual(await store.overdue(), []);
});

test('entries are kept once, until they are brought home', async () => {
  const { store } = await filled();
  for (const number of [2, 3, 5]) {
    const entry = { box: BOX, number, message: await authority.entry(number) };
    await store.keepEntries([entry]);
    await store.keepEntries([structuredClone(entry)]);
  }
  assert.deepEqual((await store.state()).entries.map(({ number }) => number), [2, 3, 5]);
  assert.equal(await store.firstMissing(BOX, 1), 1);
  assert.equal(await store.firstMissing(BOX, 2), 4);
  await store.broughtHome((await store.state()).entries.slice(0, 2), [await authority.receipt(3)]);
  assert.deepEqual((await store.state()).entries.map(({ number }) => number), [5]);
  assert.equal(await store.firstMissing(BOX, 1), 4);
});

test('of two receipts the higher one stays', async () => {
  const { store } = await filled({ receipt: await authority.receipt(7) });
  await store.broughtHome([], [await authority.receipt(6)]);
  assert.deepEqual((await store.state()).receipts.map(({ number }) => number), [7]);
  await store.broughtHome([], [await authority.receipt(8)]);
  assert.deepEqual((await store.state()).receipts.map(({ number }) => number), [8]);
});

test('of two receipts with one number the later one stays', async () => {
  const [later, earlier] = [await authority.receipt(7, NOW + 1), await authority.receipt(7, NOW)];
  const { store } = await filled({ receipt: earlier });
  await store.broughtHome([], [later]);
  await store.broughtHome([], [earlier]);
  assert.deepEqual((await store.state()).receipts.map(({ message }) => message), [later]);
});

test('an answer that arrives late brings back no older key set', async () => {
  const { store } = await filled({ sequence: 2 });
  await store.takeKeys(await authority.answer(device.publicKey, { sequence: 1 }), '"0"', device.publicKey);
  const { keySet, etag } = await store.state();
  assert.deepEqual([keySet.sequence, etag], [2, '"0"']);
});

test('two stores with the same records lose nothing of each other', async () => {
  const { store, clock, records } = await filled();
  const worker = new Store(records, () => clock.now);
  const counters = await Promise.all([store, worker, store, worker].map((one) => one.nextCounter()));
  assert.equal(new Set(counters).size, 4);
  const messages = await Promise.all([2, 3, 4, 5].map((number) => authority.entry(number)));
  await Promise.all(messages.map((message, place) => (
    [store, worker][place % 2].keepEntries([{ box: BOX, number: place + 2, message }])
  )));
  await worker.haveMet();
  const { entries, counter } = await store.state();
  assert.deepEqual([entries.length, counter], [4, Math.max(...counters)]);
});
