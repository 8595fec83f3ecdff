/**
 * A phone with a server and a box, which tests/offline_keys/test_js_phone_end_to_end.py starts; it also checks the
 * results.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DeviceKey } from '../keys.js';
import { Phone } from '../phone.js';
import { Server } from '../server.js';
import { Store } from '../store.js';

const DAY_MS = 86_400_000;
const { base, idToken, subject, box } = JSON.parse(process.env.KEYRACK_WHOLE ?? '{}');
const skip = base === undefined && 'tests/offline_keys/test_js_phone_end_to_end.py starts a server';

async function exchange(body) {
  const response = await fetch(box, { method: 'POST', body });
  return new Uint8Array(await response.arrayBuffer());
}

test('a key is fetched, opens and closes, and the log comes home', { skip }, async () => {
  const store = new Store();
  const phone = new Phone(await DeviceKey.generate(), store, new Server(base, async () => idToken));
  await phone.register(subject, 'Pixel 9', 'TrustedEnvironment');
  await phone.meetServer();
  assert.equal((await store.state()).keys.length, 1);
  assert.deepEqual(await store.overdue(), []);

  const conversation = phone.at(exchange);
  const { entry, key } = await conversation.open();
  assert.ok(entry.length > 0);
  const { names } = await store.boxOf(key.box);
  assert.ok(names.some(({ day }) => day === Math.floor(Date.now() / DAY_MS)));
  await conversation.fetchLog();
  assert.deepEqual((await store.state()).entries.map(({ number }) => number).sort(), [1, 2]);

  await phone.meetServer();
  const { entries, receipts } = await store.state();
  assert.deepEqual(entries, []);
  assert.deepEqual(receipts.map(({ number }) => number), [2]);
  assert.deepEqual((await store.keysFor(key.box))[0], key, 'before renewAfter it is the same key');

  await phone.at(exchange).close();
  await phone.meetServer();
  const { etag } = await store.state();
  await phone.meetServer();
  assert.equal((await store.state()).etag, etag);
});

test('the server tells the time to who has a key of the box', { skip }, async () => {
  const server = new Server(base, async () => idToken);
  await assert.rejects(server.time('box:2000000000:1', new Uint8Array(16)), { status: 404, code: 'no-key-for-box' });
  await assert.rejects(server.getKeys('A'.repeat(43), null), { status: 404, code: 'device-not-found' });
});
