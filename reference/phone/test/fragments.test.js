/**
 * The vectors of docs/ble-vectors.json for fragments, and laws of them.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Command, FragmentRejected, LEAST_SIZE, MOST_SIZE, Reassembly, split } from '../fragments.js';
import { LONGEST } from '../link.js';
import { fromHex, toHex } from './helping.js';

const vectors = JSON.parse(readFileSync(new URL('../../../docs/ble-vectors.json', import.meta.url), 'utf8'));

for (const { size, message, fragments } of vectors.split) {
  test(`split ${message.length / 2} bytes by ${size}`, () => {
    assert.deepEqual([...split(fromHex(message), size)].map(toHex), fragments);
  });
}

for (const { comment, steps } of vectors.phone) {
  test(`a phone receives ${comment}`, () => {
    const reassembly = new Reassembly(...Object.values(Command));
    for (const { fragment, at, ...expected } of steps) assert.deepEqual(accepted(reassembly, fragment, at), expected);
  });
}

/** The result of a fragment, in the form of the vectors. */
function accepted(reassembly, fragment, at) {
  try {
    const whole = reassembly.accept(fromHex(fragment), at);
    return { whole: whole && { command: whole.command, data: toHex(whole.data) } };
  } catch (error) {
    if (error instanceof FragmentRejected) return { error: error.code };
    throw error;
  }
}

test('each size carries each message, in fragments of at most that size', () => {
  for (const length of [1, LEAST_SIZE - 3, LEAST_SIZE - 2, LONGEST]) {
    const message = Uint8Array.from({ length }, (_, place) => place % 251);
    for (let size = LEAST_SIZE; size <= MOST_SIZE; size += 1) {
      const reassembly = new Reassembly(Command.MESSAGE);
      const fragments = [...split(message, size)];
      assert.ok(fragments.every((fragment) => fragment.length <= size));
      const results = fragments.map((fragment) => reassembly.accept(fragment, 0));
      assert.deepEqual(results.pop(), { command: Command.MESSAGE, data: message });
      assert.ok(results.every((result) => result === null));
    }
  }
});

test('a command that the other side may not send is rejected', () => {
  const keepAlive = Uint8Array.of(Command.KEEP_ALIVE, 0, 1, 1);
  assert.throws(() => new Reassembly(Command.MESSAGE).accept(keepAlive, 0), { name: 'FragmentRejected', code: 1 });
});

test('a message that was dropped leaves nothing', () => {
  const reassembly = new Reassembly(Command.MESSAGE);
  reassembly.accept(fromHex('830002c0'), 0);
  reassembly.clear();
  assert.deepEqual(reassembly.accept(fromHex('830001c1'), 5_000), { command: Command.MESSAGE, data: fromHex('c1') });
});
