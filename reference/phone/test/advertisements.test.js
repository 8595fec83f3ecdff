/**
 * The vectors of docs/ble-vectors.json for advertised names, and the names that a phone looks for.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { dayOf, name, namesAround, slotAt, WIDE } from '../advertisements.js';
import { fromHex } from './helping.js';

const { names: vectors } = JSON.parse(readFileSync(new URL('../../../docs/ble-vectors.json', import.meta.url), 'utf8'));
const DAY_SECONDS = 86_400;
const dayKeys = [...new Map(vectors.map(({ day, dayKey }) => [day, { day, key: fromHex(dayKey) }])).values()];
const [first] = vectors.filter(({ day }) => day === 1); // midnight after the first day; the vectors have both days

for (const { time, day, slot, dayKey, name: expected } of vectors) {
  test(`the name at ${time}`, async () => {
    assert.deepEqual([slotAt(time), dayOf(slot)], [slot, day]);
    assert.equal(await name(fromHex(dayKey), slot), expected);
    assert.ok((await namesAround(dayKeys, time)).includes(expected));
  });
}

test('a phone looks for three names, or for 17', async () => {
  const [near, wide] = [await namesAround(dayKeys, DAY_SECONDS), await namesAround(dayKeys, DAY_SECONDS, WIDE)];
  assert.deepEqual([near.length, new Set(wide).size], [3, 17]);
  assert.equal(near[1], first.name);
  assert.deepEqual(near, wide.slice(7, 10));
  assert.deepEqual(await namesAround(dayKeys, DAY_SECONDS + 899), near, 'the same slot');
});

test('the name before midnight is that of the day before', async () => {
  const [before] = await namesAround(dayKeys, DAY_SECONDS);
  assert.equal(before, vectors.find(({ time }) => time === DAY_SECONDS - 1).name);
});

test('a day without a key has no names', async () => {
  const ofFirstDay = dayKeys.filter(({ day }) => day === 0);
  assert.equal((await namesAround(ofFirstDay, DAY_SECONDS)).length, 1, 'the slot before midnight');
  assert.deepEqual(await namesAround(ofFirstDay, 2 * DAY_SECONDS), []);
  assert.deepEqual(await namesAround([], DAY_SECONDS), []);
});
