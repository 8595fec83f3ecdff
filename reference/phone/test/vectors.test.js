/**
 * The vectors of docs/keys-vectors.json, as far as a phone can check them: parsing, and the answers of boxes. Only
 * boxes check vectors that depend on a box's clock, lists or nonces.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { decode, encode } from '../cbor.js';
import { CODES, Refused } from '../codes.js';
import { isSignedBy, read, readEntry, thumbprint } from '../cose.js';
import { Link } from '../link.js';
import { fromHex, refusedAs, toHex } from './helping.js';

const vectors = JSON.parse(readFileSync(new URL('../../../docs/keys-vectors.json', import.meta.url), 'utf8'));
const READING = ['too-long', 'encoding', 'structure', 'header', 'algorithm', 'typ', 'claims'];
const SIGNATURES = ['key-signature', 'answer-signature', 'signature'];
const MOST = 2048;
const ARTEFACTS = ['keyset', 'root', 'statuslist', 'time', 'receipt'];

/** The signed messages in a message of the link, by its number: the place of each, and its allowed names. */
const PARTS = {
  3: [['artefact', ARTEFACTS]],
  5: [['key', ['key']], ['answer', ['answer']]],
  11: [['provisioning', ['provisioning']], ['keyset', ['keyset']], ['list', ['statuslist']]],
};

const KEYS = Object.values(vectors.keys).map(
  ({ x, y }) => new Map([[1, 2], [-1, 1], [-2, fromHex(x)], [-3, fromHex(y)]]),
);
const KEYS_BY_KID = new Map(await Promise.all(
  KEYS.map(async (key) => [toHex((await thumbprint(key)).slice(0, 8)), key]),
));

/** Whether the key that a message names signed it. */
async function isSigned(signed) {
  const key = KEYS_BY_KID.get(toHex(signed.kid));
  return key !== undefined && isSignedBy(signed, key);
}

/** Parse the signed messages in a message of the link; throws the first fault. */
function readAll(bytes) {
  if (bytes.length > MOST) throw new Refused('too-long', 'for a link');
  const [kind, ...members] = decode(bytes);
  const parts = PARTS[kind] ?? [];
  return parts.map(([part, names], place) => [part, read(members[place], ...names)]);
}

function each(type, body) {
  const { tests } = vectors.testGroups.find((group) => group.type === type);
  for (const vector of tests) test(`${vector.tcId}: ${vector.comment}`, () => body(vector));
}

test('the codes have the same numbers', () => {
  assert.deepEqual(Object.values(vectors.codes).slice(1), CODES.slice(1));
});

test('the thumbprints are the same', async () => {
  const prints = await Promise.all(KEYS.map(thumbprint));
  assert.deepEqual(prints.map(toHex), Object.values(vectors.keys).map((key) => key.thumbprint));
});

each('Encoding', ({ item, result }) => {
  if (result === 'valid') assert.equal(toHex(encode(decode(fromHex(item)))), item);
  else assert.throws(() => decode(fromHex(item)), refusedAs('encoding'));
});

each('Reading', async ({ expects, message, code, toBeSigned, kept }) => {
  const reading = () => read(fromHex(message), expects);
  if (code !== 0) {
    assert.throws(reading, refusedAs(CODES[code]));
  } else {
    assert.equal(toHex(reading().toBeSigned), toBeSigned);
    assert.ok(await isSigned(reading()));
    if (kept !== undefined) assert.equal(toHex(readEntry(fromHex(message)).message), kept);
  }
});

each('Start', async ({ entry }) => {
  if (entry !== '') assert.ok(await isSigned(read(fromHex(entry), 'entry')));
});

each('Box', async (vector) => {
  await isReadAs(vector);
  await isAnswered(vector);
});

/** Check a request to the box: rejected with the vector's code, or parsed. */
async function isReadAs({ message, code, toBeSigned }) {
  const bytes = fromHex(message);
  const isTalk = CODES[code] === 'structure' && !isOfParts(bytes);
  if (READING.includes(CODES[code]) && !isTalk) {
    assert.throws(() => readAll(bytes), refusedAs(CODES[code]));
    return;
  }
  assert.equal(toHex(encode(decode(bytes))), message);
  if (isTalk) return;
  const parts = readAll(bytes);
  for (const [part, signed] of parts) assert.equal(toHex(signed.toBeSigned), toBeSigned[part]);
  const areSigned = await Promise.all(parts.map(([, signed]) => isSigned(signed)));
  if (code === 0) assert.ok(areSigned.every(Boolean));
  if (SIGNATURES.includes(CODES[code])) assert.ok(!areSigned.every(Boolean));
}

/** Whether a message has the form of an open, a carry or a provision; no other message has signed messages. */
function isOfParts(bytes) {
  const item = decode(bytes);
  const parts = Array.isArray(item) ? PARTS[item[0]] : undefined;
  return parts?.length === item.length - 1 && item.slice(1).every((part) => part instanceof Uint8Array);
}

/** Check an answer of the box, by a phone that requested it. */
async function isAnswered({ message, reply, result, wireCode }) {
  const link = new Link(async () => fromHex(reply));
  const [kind] = result === 'valid' ? decode(fromHex(message)) : [];
  const [said] = decode(fromHex(reply));
  if (said === 6) {
    const { code, entry } = await link.open(new Uint8Array(), new Uint8Array());
    assert.equal(code, wireCode);
    if (entry.length > 0) assert.ok(await isSigned(read(entry, 'entry')));
  }
  if (said === 4) assert.equal(await link.carry(new Uint8Array()), result === 'valid');
  if (said === 2) assert.equal(toHex((await link.hello()).message), reply);
  if (said === 12) await assert.rejects(link.hello(), refusedAs('structure'), 'this phone offers what the box speaks');
  if (kind === 7) for (const entry of (await link.fetch(1)).entries) assert.ok(await isSigned(read(entry, 'entry')));
}
