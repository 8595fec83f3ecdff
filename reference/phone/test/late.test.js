/**
 * A phone that comes back to its server after 28 days, which tests/offline_keys/test_js_phone_end_to_end.py starts.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DeviceKey } from '../keys.js';
import { Phone } from '../phone.js';
import { Server } from '../server.js';
import { Store } from '../store.js';

const { base, idToken, subject, box, daysPass } = JSON.parse(process.env.KEYRACK_LATE ?? '{}');
const skip = base === undefined && 'tests/offline_keys/test_js_phone_end_to_end.py starts a server';

async function post(address, body) {
  const response = await fetch(address, { method: 'POST', body });
  assert.equal(response.status, 200);
  return new Uint8Array(await response.arrayBuffer());
}

const exchange = (body) => post(box, body);

test('a phone that was away renews its key, opens, and brings the log home', { skip }, async () => {
  const store = new Store();
  const phone = new Phone(await DeviceKey.generate(), store, new Server(base, async () => idToken));
  await phone.register(subject, 'Pixel 9', 'TrustedEnvironment');
  await phone.meetServer();
  const before = await phone.at(exchange).open();

  await post(daysPass, new Uint8Array());
  await phone.meetServer();
  const { keys } = await store.state();
  assert.equal(keys.length, 1);
  assert.notDeepEqual(keys[0].message, before.key.message);

  const conversation = phone.at(exchange);
  const { key } = await conversation.open();
  assert.deepEqual(key.message, keys[0].message);
  await conversation.fetchLog();
  await phone.meetServer();
  assert.deepEqual((await store.state()).entries, []);
});
