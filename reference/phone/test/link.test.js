import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decode, encode } from '../cbor.js';
import { BoxRefusal, CODES } from '../codes.js';
import { Conversation } from '../box.js';
import { DeviceKey } from '../keys.js';
import { Link } from '../link.js';
import { Store } from '../store.js';
import { Authority, BOX, HASH, NOW, refusedAs } from './helping.js';

const NONCE = new Uint8Array(16).fill(3);
const MEMBERS = [1, BOX, NONCE, NOW, 1, 1, 1, NOW, 1, 3, HASH];

/** @param {Record<number, any>} changed members by their keys */
function challenge(changed = {}) {
  const members = MEMBERS.map((value, place) => [place + 1, changed[place + 1] ?? value]);
  return [2, new Map(members)];
}

/** A link to a box that gives these answers one after another, and what it was asked. */
function answering(...answers) {
  const asked = [];
  const exchange = async (message) => {
    asked.push(decode(message));
    const answer = answers.shift();
    return answer instanceof Uint8Array ? answer : encode(answer);
  };
  return { asked, exchange, link: new Link(exchange) };
}

test('a challenge is read', async () => {
  const { asked, link } = answering(challenge());
  const { message, ...read } = await link.hello();
  assert.deepEqual(asked, [[1, 1]]);
  assert.deepEqual(message, encode(challenge()));
  const expected = { name: BOX, nonce: NONCE, time: NOW, isCertain: true, sequence: 1, generation: 1, listIat: NOW };
  for (const [name, value] of Object.entries({ ...expected, first: 1, next: 3 })) assert.deepEqual(read[name], value);
});

const WRONG = [
  ['structure', 'no array', 1],
  ['structure', 'nothing', []],
  ['structure', 'another message', [4, 0]],
  ['structure', 'one member more', [...challenge(), 0]],
  ['structure', 'no map', [2, []]],
  ['structure', 'another version', challenge({ 1: 2 })],
  ['structure', 'a name that is none', challenge({ 2: 5 })],
  ['structure', 'a name of 41', challenge({ 2: 'a'.repeat(41) })],
  ['structure', 'a nonce of 15 bytes', challenge({ 3: NONCE.slice(1) })],
  ['structure', 'a time below 0', challenge({ 4: -1 })],
  ['structure', 'neither certain nor not', challenge({ 5: 2 })],
  ['structure', 'a member more', [2, new Map([...challenge()[1], [12, 0]])]],
  ['encoding', 'no item', Uint8Array.of(0xff)],
  ['encoding', 'something behind', Uint8Array.of(...encode(challenge()), 0)],
  ['too-long', 'more than 1,536 bytes', new Uint8Array(1537)],
];

for (const [code, what, answer] of WRONG) {
  test(`${code}: ${what}`, () => assert.rejects(answering(answer).link.hello(), refusedAs(code)));
}

test('a box that does not understand says so', async () => {
  await assert.rejects(answering([6, 1, new Uint8Array()]).link.hello(), { name: 'BoxRefusal', code: 'refused' });
});

test('each code that a box may say has a text, and what helps', () => {
  for (const [number, code] of CODES.entries()) {
    const refusal = new BoxRefusal(number);
    assert.equal(refusal.code, code);
    assert.ok(refusal.message.length > 0 && refusal.help.length > 0);
  }
  assert.equal(new BoxRefusal(18).message, 'The key was revoked.');
  assert.equal(new BoxRefusal(18).action, 'ask');
  assert.equal(new BoxRefusal(999).code, 'refused');
});

test('the log is fetched until all of it is there, though the box gives few at a time', async () => {
  const authority = await Authority.make();
  const entries = await Promise.all([1, 2, 3, 4, 5].map((number) => authority.entry(number)));
  const hello = challenge({ 10: 5 });
  const { asked, exchange } = answering(hello, [8, 5, entries.slice(0, 3)], [8, 6, entries.slice(3)]);
  const store = new Store();
  await new Conversation(exchange, await DeviceKey.generate(), store).fetchLog();
  assert.deepEqual(asked.slice(1), [[7, 1], [7, 4]]);
  assert.deepEqual((await store.state()).entries.map(({ number }) => number), [1, 2, 3, 4, 5]);
});

test('a box that gives the same entries again and again is not asked for ever', async () => {
  const authority = await Authority.make();
  const again = [8, 9, [await authority.entry(1)]];
  const { exchange } = answering(challenge(), again, again);
  const store = new Store();
  const conversation = new Conversation(exchange, await DeviceKey.generate(), store);
  await assert.rejects(conversation.fetchLog(), refusedAs('structure'));
});

test('without a key nothing is opened', async () => {
  const device = await DeviceKey.generate();
  const without = (answer) => new Conversation(answering(answer).exchange, device, new Store()).open();
  await assert.rejects(without(challenge()), { name: 'NoKey', box: BOX });
  await assert.rejects(without(challenge({ 2: '' })), { name: 'NoKey', message: 'The box is not set up yet.' });
});
