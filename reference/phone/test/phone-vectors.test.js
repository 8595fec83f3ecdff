/**
 * The vectors of docs/phone-vectors.json: what a phone keeps, brings, sends and learns. WebCrypto signs with a random
 * number, so signatures are verified, and the bytes before them are compared.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { toBase64url } from '../bytes.js';
import { Conversation } from '../box.js';
import { decode, encode } from '../cbor.js';
import { BoxRefusal, CODES } from '../codes.js';
import { isSignedBy, read, readEntry } from '../cose.js';
import { DeviceKey } from '../keys.js';
import { Link, TransportLost } from '../link.js';
import { emptyState, MemoryRecords, Store } from '../store.js';
import { fromHex, refusedAs, toHex } from './helping.js';

const vectors = JSON.parse(readFileSync(new URL('../../../docs/phone-vectors.json', import.meta.url), 'utf8'));
const SIGNATURE_SIZE = 64;
const OPEN = 5;
const ENDS = { NoKey: 'no-key', BoxRefusal: 'refused', OutcomeUnknown: 'unknown', TransportLost: 'lost',
  VersionMismatch: 'version', Refused: 'invalid', OtherBox: 'other-box' };
const device = await phoneKey(vectors.keys['phone-1']);

/** The pair of the phone in the vectors. */
async function phoneKey({ d, x, y }) {
  const curve = { name: 'ECDSA', namedCurve: 'P-256' };
  const point = { kty: 'EC', crv: 'P-256', x: toBase64url(fromHex(x)), y: toBase64url(fromHex(y)) };
  const own = { ...point, d: toBase64url(fromHex(d)) };
  return DeviceKey.of({
    privateKey: await crypto.subtle.importKey('jwk', own, curve, false, ['sign']),
    publicKey: await crypto.subtle.importKey('jwk', point, curve, true, ['verify']),
  });
}

function each(type, body) {
  const { tests } = vectors.testGroups.find((group) => group.type === type);
  for (const vector of tests) test(`${vector.tcId}: ${vector.comment}`, () => body(vector));
}

const orNull = (hex) => (hex === null ? null : fromHex(hex));

/** The response of `GET /sdk/keys` for these messages; its other members are as the server derives them. */
function answerOf({ keySet, roots, keys, boxes }) {
  return {
    keySet: orNull(keySet),
    roots: roots.map(fromHex),
    keys: keys.map(({ assignmentId, renewAfter, key }) => ({ ...timesOf(fromHex(key), renewAfter), assignmentId })),
    boxes: boxes.map(({ box, boxKey, statusLists, receipt }) => (
      { box, boxKey: orNull(boxKey), names: [], statusLists: statusLists.map(fromHex), receipt: orNull(receipt) }
    )),
    withheld: [],
    isComplete: true,
  };
}

function timesOf(key, renewAfter) {
  const names = { key, carId: 1, productId: 1, renewAfter: new Date(renewAfter).toISOString() };
  try {
    const { aud, iat, nbf, exp } = read(key, 'key').claims;
    const [issued, begins, expires] = [iat, nbf, exp].map((time) => new Date(time * 1000).toISOString());
    return { ...names, box: aud, issued, begins, expires };
  } catch { // another message, which the store rejects
    return names;
  }
}

/** A store with the state before a vector, and a clock that the test sets. */
async function storeOf(vector) {
  const state = { ...vectors.states[vector.state], ...vector.set };
  const boxes = state.boxes.map((box) => ({ ...box, statusLists: [], receipt: null }));
  for (const list of state.lists) {
    const { aud } = read(fromHex(list), 'statuslist').claims;
    (boxes.find(({ box }) => box === aud) ?? boxes.at(-1)).statusLists.push(list);
  }
  const clock = { now: state.metServer };
  const records = new MemoryRecords();
  const store = new Store(records, () => clock.now);
  await store.takeKeys(answerOf({ ...state, boxes }), null, device.publicKey);
  await store.broughtHome([], state.receipts.map(fromHex));
  await records.change((kept) => {
    kept.entries = state.entries.map((hex) => toEntry(fromHex(hex)));
    kept.counter = state.counter;
  });
  return { store, clock, before: toJson(await store.state()) };
}

function toEntry(message) {
  const { aud, number } = read(message, 'entry').claims;
  return { box: aud, number, message };
}

/** A state as the vectors have it. */
function toJson(state) {
  const messages = (held) => held.map(({ message }) => toHex(message));
  return {
    keySet: state.keySet && toHex(state.keySet.message),
    roots: messages(state.roots),
    boxes: state.boxes.map(({ name, publicKey }) => ({ box: name, boxKey: publicKey && toHex(encode(publicKey)) })),
    keys: state.keys.map(({ assignmentId, renewAfter, message }) => ({ assignmentId, renewAfter, key: toHex(message) })),
    lists: messages(state.lists),
    receipts: messages(state.receipts),
    entries: messages(state.entries),
    counter: state.counter,
    metServer: state.metServer,
  };
}

/** The members that differ. Signatures of WebCrypto are in no state. */
async function changesOf({ store, before }) {
  const after = Object.entries(toJson(await store.state()));
  return Object.fromEntries(after.filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));
}

/** Whether a call is rejected with this code; 0 for success. */
async function ends(code, call) {
  if (code === 0) await call();
  else await assert.rejects(call, refusedAs(CODES[code]));
}

test('the codes have the same numbers', () => {
  assert.deepEqual(Object.values(vectors.codes).slice(1), CODES.slice(1));
});

test('an empty state is that of the vectors', () => {
  assert.deepEqual(toJson(emptyState()), vectors.states.empty);
});

each('Answer', async (vector) => {
  const held = await storeOf(vector);
  held.clock.now = vector.now;
  await ends(vector.code, () => held.store.takeKeys(answerOf(vector.answer), null, device.publicKey));
  assert.deepEqual(await changesOf(held), vector.changes);
});

each('Home', async (vector) => {
  const held = await storeOf(vector);
  const entries = vector.entries.map((hex) => toEntry(fromHex(hex)));
  await ends(vector.code, async () => held.store.broughtHome(entries, vector.receipts.map(fromHex)));
  assert.deepEqual(await changesOf(held), vector.changes);
});

each('Bring', async (vector) => {
  const { store, clock } = await storeOf(vector);
  const challenge = await new Link(async () => fromHex(vector.challenge)).hello();
  assert.deepEqual((await store.authorityFor(challenge)).map(toHex), vector.authority);
  assert.deepEqual((await store.artefactsFor(challenge)).map(toHex), vector.artefacts);
  clock.now = vector.now;
  assert.equal(await asksNoTime(store, vector.challenge), vector.isClockRight);
});

/** Whether a conversation asks the server for no time. */
async function asksNoTime(store, challenge) {
  let isAsked = false;
  const answer = async (message) => (decode(message)[0] === 1 ? fromHex(challenge) : Uint8Array.of(0x82, 4, 0));
  const askTime = async () => {
    isAsked = true;
    throw new Error('no network');
  };
  await new Conversation(answer, device, store, askTime).greet();
  return !isAsked;
}

each('Choice', async (vector) => {
  const { store, clock } = await storeOf(vector);
  clock.now = vector.now;
  const keys = await store.keysFor(vector.box);
  const overdue = (await store.overdue()).map(({ message }) => toHex(message));
  assert.deepEqual(keys.map(({ message }) => toHex(message)), vector.keys);
  assert.deepEqual(keys.map(({ message }) => overdue.includes(toHex(message))), vector.overdue);
});

each('Counter', async (vector) => {
  const { store, clock } = await storeOf(vector);
  clock.now = vector.now;
  assert.equal(await store.nextCounter(), vector.counter);
  assert.equal((await store.state()).counter, vector.counter);
});

each('Missing', async (vector) => {
  const { store } = await storeOf(vector);
  assert.equal(await store.firstMissing(vector.box, vector.first), vector.number);
});

each('Registration', async ({ subject, nonce, message }) => {
  await isSame(await device.registration(subject, fromHex(nonce)), fromHex(message), 'registration');
});

each('Action', ({ code, action }) => {
  assert.equal(new BoxRefusal(code).action, action);
});

/** Check a signed message: the bytes before the signature are the same, and the signature is valid. */
async function isSame(made, expected, name) {
  const unsigned = (bytes) => toHex(bytes.slice(0, -SIGNATURE_SIZE));
  assert.equal(unsigned(made), unsigned(expected));
  assert.ok(await isSignedBy(read(made, name), device.publicKey));
}

async function isSent(made, expected) {
  const [kind, , answer] = decode(made);
  if (kind !== OPEN) assert.equal(toHex(made), toHex(expected));
  else await isSame(answer, decode(expected)[2], 'answer').then(() => assert.equal(made.length, expected.length));
  if (kind === OPEN) assert.equal(toHex(made.slice(0, -SIGNATURE_SIZE)), toHex(expected.slice(0, -SIGNATURE_SIZE)));
}

each('Conversation', async (vector) => {
  const held = await storeOf(vector);
  const steps = vector.calls.flatMap((call) => call.steps);
  const faults = [];
  // A fault is thrown into the conversation, which may treat it as a lost connection, so it is also kept
  const next = async (check) => {
    const step = steps.shift();
    await check(step).catch((error) => faults.push(error));
    held.clock.now = step.now;
    return step;
  };
  const exchange = async (message) => {
    const { lost, reply } = await next(async ({ send }) => isSent(message, fromHex(send)));
    if (lost !== undefined) throw new TransportLost(lost ? 'all' : 'part');
    return fromHex(reply);
  };
  const askTime = async (box, nonce) => {
    const { time } = await next(async (step) => assert.deepEqual({ box, nonce: toHex(nonce) }, step.askTime));
    return time === '' ? Promise.reject(new Error('no answer')) : fromHex(time);
  };
  held.clock.now = vector.calls[0].steps[0].now;
  const server = vector.hasNetwork ? askTime : undefined;
  const conversation = new Conversation(exchange, device, held.store, server, vector.product || undefined);
  const calls = { open: () => conversation.open(), close: () => conversation.close(), fetch: () => conversation.fetchLog() };
  for (const { call, ending } of vector.calls) {
    assert.deepEqual(await calls[call]().then(() => ({ end: 'done', code: 0, action: 'none' }), toEnding), ending);
  }
  assert.deepEqual(faults, []);
  assert.deepEqual(steps, []);
  assert.deepEqual(await changesOf(held), vector.changes);
});

/** An error of a conversation as the vectors have it. */
function toEnding(error) {
  const code = error.code === undefined ? 0 : CODES.indexOf(error.code);
  assert.ok(error.name in ENDS, error.stack);
  return { end: ENDS[error.name], code, action: error.action ?? 'none' };
}

test('the entries of the vectors have a low s', () => {
  const { tests } = vectors.testGroups.find((group) => group.type === 'Conversation');
  const entries = tests.flatMap(({ changes }) => changes.entries ?? []);
  assert.ok(entries.length > 50);
  for (const entry of entries) assert.equal(toHex(readEntry(fromHex(entry)).message), entry);
});
