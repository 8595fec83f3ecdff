import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fromBase64url, toBase64url } from '../bytes.js';
import { read } from '../cose.js';
import { DeviceKey } from '../keys.js';
import { Phone } from '../phone.js';
import { Server } from '../server.js';
import { Store } from '../store.js';
import { Authority, BOX } from './helping.js';

const device = await DeviceKey.generate();
const authority = await Authority.make();

/** A server with these responses in turn, and the requests that it got. */
function answering(...answers) {
  const requests = [];
  const fetch = async (url, { method, headers, body }) => {
    requests.push({ method, url, headers, body: body && JSON.parse(body) });
    const { status = 200, json, etag } = answers.shift();
    const body304 = status === 304 ? null : JSON.stringify(json);
    return new Response(body304, { status, headers: etag === undefined ? {} : { ETag: etag } });
  };
  return { requests, server: new Server('https://keyrack.example/v3/', async () => 'a.b.c', fetch) };
}

/** A response with messages in the server's encoding. */
function written(answer) {
  const boxes = answer.boxes.map((box) => (
    { ...box, statusLists: box.statusLists.map((statusList) => ({ generation: 1, statusList })) }
  ));
  const toText = (_, member) => (member instanceof Uint8Array ? toBase64url(member) : member);
  return JSON.parse(JSON.stringify({ ...answer, boxes }, toText));
}

test('base64url is read as it is written', () => {
  for (const length of [0, 1, 2, 3, 64]) {
    const bytes = crypto.getRandomValues(new Uint8Array(length));
    assert.deepEqual(fromBase64url(toBase64url(bytes)), bytes);
    assert.equal(toBase64url(bytes), Buffer.from(bytes).toString('base64url'));
  }
  for (const wrong of ['AA==', 'A+/A', 'A', ' AAA']) assert.throws(() => fromBase64url(wrong));
});

test('a phone is registered', async () => {
  const nonce = new Uint8Array(16).fill(7);
  const registered = { id: device.id, isApproved: false };
  const { requests, server } = answering({ json: { nonce: toBase64url(nonce) } }, { json: registered });
  const isApproved = await new Phone(device, new Store(), server).register('somebody', 'Pixel 9', 'SecureElement');
  assert.equal(isApproved, false);
  const [begin, { method, url, headers, body }] = requests;
  assert.equal(`${begin.method} ${begin.url}`, 'POST https://keyrack.example/v3/sdk/devices/nonce');
  assert.equal(`${method} ${url}`, 'PUT https://keyrack.example/v3/sdk/devices');
  assert.equal(headers.Authorization, 'Bearer a.b.c');
  assert.equal(headers['Content-Type'], 'application/json');
  const expected = { registration: 0, name: 'Pixel 9', claimedProtection: 'SecureElement' };
  assert.deepEqual({ ...body, registration: 0 }, expected);
  assert.deepEqual(read(fromBase64url(body.registration), 'registration').claims.nonce, nonce);
});

test('keys are fetched, and the next time only what is new', async () => {
  const json = written(await authority.answer(device.publicKey, { receipt: await authority.receipt(3) }));
  const { requests, server } = answering({ json, etag: '"1"' }, { status: 304 });
  const store = new Store();
  const phone = new Phone(device, store, server);
  await phone.meetServer();
  assert.equal((await store.keysFor(BOX))[0].assignmentId, 4711);
  assert.equal((await store.state()).receipts[0].number, 3);
  await phone.meetServer();
  assert.equal(requests[1].url, `https://keyrack.example/v3/sdk/keys?device=${device.id}`);
  assert.deepEqual(requests.map(({ headers }) => headers['If-None-Match']), [undefined, '"1"']);
  assert.equal((await store.keysFor(BOX))[0].assignmentId, 4711);
});

test('new roots and keys of boxes are fetched, and an older server may have none', async () => {
  const customer = await Authority.make();
  const roots = await customer.newRoots(2, 3);
  const names = [{ day: 20_833, key: new Uint8Array(16).fill(7) }];
  const json = written(await customer.answer(device.publicKey, { sequence: 4, roots, names }));
  const { roots: _, boxes: [{ boxKey, names: dayKeys, ...box }], ...older } = json;
  const { server } = answering({ json }, { json: { ...older, boxes: [box] } });
  const store = new Store();
  const phone = new Phone(device, store, server);
  await phone.meetServer();
  assert.deepEqual((await store.state()).roots.map(({ message }) => message), roots);
  assert.deepEqual((await store.boxOf(BOX)).publicKey, customer.box.publicKey);
  assert.deepEqual((await store.boxOf(BOX)).names, names);
  await phone.meetServer();
  assert.deepEqual(await store.boxOf(BOX), { name: BOX, publicKey: null, names: [] });
});

test('the log is brought home before keys are fetched', async () => {
  const receipt = toBase64url(await authority.receipt(150));
  const refused = [{ index: 0, reason: 'forgery' }];
  const log = { json: { receipts: [{ box: BOX, upTo: 150, receipt }], refused } };
  const { requests, server } = answering(log, log, { status: 304 });
  const store = new Store();
  for (let number = 1; number <= 150; number += 1) {
    await store.keepEntries(BOX, [{ box: BOX, number, message: Uint8Array.of(number) }]);
  }
  await new Phone(device, store, server).meetServer();
  assert.deepEqual(requests.map(({ body }) => body?.entries.length), [100, 50, undefined]);
  assert.deepEqual((await store.state()).entries, []);
  assert.equal(await store.firstMissing(BOX, 1), 151);
});

test('what the server refuses has its code', async () => {
  const problem = { code: 'device-not-found', detail: 'Unable to find the device.' };
  const { server } = answering({ status: 404, json: problem }, { status: 502, json: 'no problem' });
  const refusal = { name: 'ServerRefusal', status: 404, code: 'device-not-found' };
  await assert.rejects(server.getKeys(device.id, null), refusal);
  await assert.rejects(server.time(BOX, new Uint8Array(16)), { status: 502, message: 'The server has answered 502.' });
});
