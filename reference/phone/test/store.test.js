import assert from 'node:assert/strict';
import { test } from 'node:test';

import { encode } from '../cbor.js';
import { DeviceKey } from '../keys.js';
import { MemoryRecords, Store } from '../store.js';
import { Authority, BOX, HASH, NOW, OFF_CURVE, refusedAs } from './helping.js';

const device = await DeviceKey.generate();
const authority = await Authority.make();
const HOUR = 3_600_000;
const RENEW_AFTER = (NOW + 302_400) * 1000;
const NOTHING = { name: BOX, sequence: 0, generation: 0, listIat: 0, first: 1, next: 5, root: authority.root.kid };

/** A store with the keys of a response, and a clock that the test sets. */
async function filled(options, customer = authority) {
  const clock = { now: NOW * 1000 };
  const records = new MemoryRecords();
  const store = new Store(records, () => clock.now);
  await store.takeKeys(await customer.answer(device.publicKey, options), '"1"', device.publicKey);
  return { store, clock, records };
}

test('what the server answered is kept, and a store begins with it again', async () => {
  const { store, records } = await filled();
  const again = new Store(records);
  assert.deepEqual(await again.keysFor(BOX), await store.keysFor(BOX));
  const { etag, metServer } = await again.state();
  assert.deepEqual([etag, metServer], ['"1"', NOW * 1000]);
  assert.deepEqual(await again.keysFor('box:1041:4'), []);
});

test('the key of another phone refuses the whole answer', async () => {
  const { store } = await filled();
  const before = await store.state();
  const answer = await authority.answer((await DeviceKey.generate()).publicKey, { sequence: 2 });
  await assert.rejects(store.takeKeys(answer, '"2"', device.publicKey), refusedAs('other-key'));
  assert.deepEqual(await store.state(), before);
});

test('the key of a box that is no public key refuses the whole answer', async () => {
  const { store } = await filled();
  const before = await store.state();
  for (const boxKey of [encode(OFF_CURVE), encode([1])]) {
    const answer = await authority.answer(device.publicKey, { sequence: 2 });
    answer.boxes[0].boxKey = boxKey;
    await assert.rejects(store.takeKeys(answer, '"2"', device.publicKey), refusedAs('claims'));
  }
  assert.deepEqual(await store.state(), before);
});

test('a box is known by its list', async () => {
  const { store } = await filled();
  assert.deepEqual(await store.boxOf(BOX), { name: BOX, publicKey: authority.box.publicKey, names: [] });
  assert.equal(await store.boxOf('box:9:1'), null);
  assert.equal(await (await filled({ lists: [] })).store.boxOf(BOX), null);
});

test('the day keys of a box are kept, until an answer has others', async () => {
  const names = [20_833, 20_834].map((day) => ({ day, key: new Uint8Array(16).fill(day) }));
  const { store } = await filled({ names });
  assert.deepEqual((await store.boxOf(BOX)).names, names);
  await store.takeKeys(await authority.answer(device.publicKey, { names: names.slice(1) }), '"2"', device.publicKey);
  assert.deepEqual((await store.boxOf(BOX)).names, names.slice(1));
});

test('a box that an older release kept has no day keys', async () => {
  const { store, records } = await filled();
  await records.change(({ boxes }) => boxes.forEach((box) => delete box.names));
  assert.deepEqual((await store.boxOf(BOX)).names, []);
});

test('an invalid day key refuses the whole answer', async () => {
  const { store } = await filled();
  const before = await store.state();
  const key = new Uint8Array(16);
  for (const invalid of [{ day: -1, key }, { day: 1.5, key }, { day: '1', key }, { day: 1, key: key.slice(1) }]) {
    const answer = await authority.answer(device.publicKey, { sequence: 2, names: [{ day: 1, key }, invalid] });
    await assert.rejects(store.takeKeys(answer, '"2"', device.publicKey), refusedAs('claims'));
  }
  assert.deepEqual(await store.state(), before);
});

test('a key that holds now goes before one that ends later', async () => {
  const { store, records } = await filled();
  const { keys: [held] } = await store.state();
  const putKeys = (...keys) => records.change((state) => Object.assign(state, { keys }));
  const later = { ...held, assignmentId: 4712, begins: held.expires, expires: held.expires + HOUR };
  const over = { ...held, assignmentId: 4710, begins: 0, expires: held.begins };
  await putKeys(later, over, held);
  assert.equal((await store.keysFor(BOX))[0].assignmentId, 4711);
  await putKeys(over, later);
  assert.equal((await store.keysFor(BOX))[0].assignmentId, 4712);
});

test('the box is brought the lists and the receipt that it does not have, the newest list last', async () => {
  const receipt = await authority.receipt(3);
  const { store } = await filled({ sequence: 2, lists: [[5, NOW], [4, NOW]], receipt });
  const { lists } = await store.state();
  const [newest, older] = lists.map(({ message }) => message);
  const brings = (changed) => store.artefactsFor({ ...NOTHING, ...changed });
  assert.deepEqual(await brings({}), [older, newest, receipt]);
  assert.deepEqual(await brings({ generation: 5, listIat: NOW, first: 4 }), []);
  assert.deepEqual(await brings({ generation: 6, listIat: NOW, first: 4 }), []);
  assert.deepEqual(await brings({ generation: 5, listIat: NOW - 1, first: 4 }), [older, newest]);
  assert.deepEqual(await brings({ generation: 4, listIat: NOW, first: 4 }), [newest]);
  assert.deepEqual(await brings({ generation: 6, listIat: NOW - 1, first: 4 }), [newest]);
  assert.deepEqual(await brings({ generation: 5, listIat: NOW, first: 3 }), [receipt]);
  assert.deepEqual(await brings({ generation: 5, listIat: NOW, next: 3 }), []);
  assert.deepEqual(await brings({ name: 'box:9:1' }), []);
});

test('the box is brought the new roots that lead on from its own, in their order, then the key set', async () => {
  const customer = await Authority.make();
  const kids = [customer.root.kid];
  const roots = [];
  for (const sequence of [2, 4, 5]) {
    roots.push(...(await customer.newRoots(sequence)));
    kids.push(customer.root.kid);
  }
  const { store } = await filled({ sequence: 6, roots: [roots[2], roots[0], roots[1]] }, customer);
  const { message: keySet } = (await store.state()).keySet;
  const brings = (changed) => store.authorityFor({ ...NOTHING, ...changed });
  assert.deepEqual(await brings({ sequence: 1, root: kids[0] }), [...roots, keySet]);
  assert.deepEqual(await brings({ sequence: 3, root: kids[1] }), [roots[1], roots[2], keySet]);
  assert.deepEqual(await brings({ sequence: 5, root: kids[3] }), [keySet]);
  assert.deepEqual(await brings({ sequence: 6, root: kids[3] }), []);
  assert.deepEqual(await brings({ sequence: 3, root: kids[0] }), [keySet], 'a root that the box calls older is no way on');
  assert.deepEqual(await brings({ sequence: 1, root: HASH.slice(0, 8) }), [keySet]);
  assert.deepEqual(await brings({ name: 'box:9:1', root: kids[0] }), [], 'another customer may have that box');
});

test('new roots that lead back to a root of before are brought once', async () => {
  const customer = await Authority.make();
  const { root } = customer;
  const [away] = await customer.newRoots(2);
  const back = await customer.root.sign('root', { iss: 'customer:7', iat: NOW, sequence: 3, root: root.publicKey });
  const { store } = await filled({ sequence: 1, roots: [away, back] }, customer);
  assert.deepEqual(await store.authorityFor({ ...NOTHING, sequence: 1, root: root.kid }), [away, back]);
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
    await store.keepEntries(BOX, [entry]);
    await store.keepEntries(BOX, [structuredClone(entry)]);
  }
  assert.deepEqual((await store.state()).entries.map(({ number }) => number), [2, 3, 5]);
  assert.equal(await store.firstMissing(BOX, 1), 1);
  assert.equal(await store.firstMissing(BOX, 2), 4);
  await store.broughtHome((await store.state()).entries.slice(0, 2), [await authority.receipt(3)]);
  assert.deepEqual((await store.state()).entries.map(({ number }) => number), [5]);
  assert.equal(await store.firstMissing(BOX, 1), 4);
});

test('1,100 entries of one box are kept at most, and those that came first', async () => {
  const { store } = await filled();
  const entry = (number, box = BOX) => ({ box, number, message: Uint8Array.of(box.length, number >> 8, number) });
  const many = (from, count) => Array.from({ length: count }, (_, place) => entry(from + place));
  assert.equal(await store.keepEntries(BOX, many(1, 1_099)), true);
  assert.equal(await store.keepEntries(BOX, many(1_098, 4)), false);
  assert.equal(await store.keepEntries(BOX, many(2_000, 1)), false);
  assert.equal(await store.keepEntries('box:9:1', [entry(1, 'box:9:1'), entry(9, 'box:9:1')]), true);
  const { entries } = await store.state();
  assert.equal(entries.length, 1_102);
  assert.deepEqual(entries.slice(-3).map(({ number }) => number), [1_100, 1, 9]);
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

test('an answer that arrives late takes no new root away', async () => {
  const customer = await Authority.make();
  const [first] = await customer.newRoots(2);
  const before = await customer.answer(device.publicKey, { sequence: 3, roots: [first] });
  const [second] = await customer.newRoots(4);
  const { store } = await filled({ sequence: 3, roots: [first, second] }, customer);
  await store.takeKeys(before, null, device.publicKey);
  assert.deepEqual((await store.state()).roots.map(({ sequence }) => sequence), [2, 4]);
});

test('two stores with the same records lose nothing of each other', async () => {
  const { store, clock, records } = await filled();
  const worker = new Store(records, () => clock.now);
  const counters = await Promise.all([store, worker, store, worker].map((one) => one.nextCounter()));
  assert.equal(new Set(counters).size, 4);
  const messages = await Promise.all([2, 3, 4, 5].map((number) => authority.entry(number)));
  await Promise.all(messages.map((message, place) => (
    [store, worker][place % 2].keepEntries(BOX, [{ box: BOX, number: place + 2, message }])
  )));
  await worker.haveMet();
  const { entries, counter } = await store.state();
  assert.deepEqual([entries.length, counter], [4, Math.max(...counters)]);
});
