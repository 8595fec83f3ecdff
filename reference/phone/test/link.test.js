import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decode, encode } from '../cbor.js';
import { BoxRefusal, CODES } from '../codes.js';
import { Conversation } from '../box.js';
import { read } from '../cose.js';
import { DeviceKey } from '../keys.js';
import { Link } from '../link.js';
import { MemoryRecords, Store } from '../store.js';
import { BoxBusy } from '../transport.js';
import { Authority, BOX, HASH, hasLowS, NOW, refusedAs, withHighS } from './helping.js';

const NONCE = new Uint8Array(16).fill(3);
const KID = new Uint8Array(8).fill(5);
const MEMBERS = [2, BOX, NONCE, NOW, 1, 1, 1, NOW, 1, 3, HASH, KID];
const device = await DeviceKey.generate();
const authority = await Authority.make();

/** @param {Record<number, any>} changed members by their keys */
function challenge(changed = {}) {
  const members = MEMBERS.map((value, place) => [place + 1, changed[place + 1] ?? value]);
  return [2, new Map(members)];
}

/** A link to a box with these answers in turn (a function computes one from the request), and the requests it got. */
function answering(...answers) {
  const asked = [];
  const exchange = async (message) => {
    asked.push(decode(message));
    const next = answers.shift();
    const answer = typeof next === 'function' ? await next(asked.at(-1)) : next;
    return answer instanceof Uint8Array ? answer : encode(answer);
  };
  return { asked, exchange, link: new Link(exchange) };
}

test('a challenge is read', async () => {
  const { asked, link } = answering(challenge());
  const { message, ...read } = await link.hello();
  assert.deepEqual(asked, [[1, [2]]]);
  assert.deepEqual(message, encode(challenge()));
  const expected = { name: BOX, nonce: NONCE, time: NOW, isCertain: true, sequence: 1, generation: 1, listIat: NOW };
  const all = { ...expected, first: 1, next: 3, root: KID };
  for (const [name, value] of Object.entries(all)) assert.deepEqual(read[name], value);
});

test('a challenge of a box before its first provisioning is read', async () => {
  const { name, root } = await answering(challenge({ 2: '', 12: new Uint8Array() })).link.hello();
  assert.deepEqual([name, root], ['', new Uint8Array()]);
});

test('members of a challenge that newer boxes add are skipped, and stand in what is hashed', async () => {
  const more = [2, new Map([...challenge()[1], [128, 'more'], [65_536, [new Map()]]])];
  const { message, name } = await answering(more).link.hello();
  assert.equal(name, BOX);
  assert.deepEqual(message, encode(more));
});

test('without a common version, one of the two is too old', async () => {
  const mismatch = (...versions) => answering([12, versions]).link.hello().catch((error) => error);
  const newer = await mismatch(1, 3);
  assert.deepEqual([newer.name, newer.versions, newer.action], ['VersionMismatch', [1, 3], 'update']);
  assert.equal(`${newer.message} ${newer.help}`, 'The app is too old for this box. Update the app, then try again.');
  const older = await mismatch(0, 1);
  assert.equal(older.action, 'ask');
  assert.equal(`${older.message} ${older.help}`, 'The box is too old for this app. Ask the operator to update the box.');
  await assert.rejects(new Conversation(answering([12, [3]]).exchange, device, new Store()).open(), { action: 'update' });
});

const WRONG = [
  ['structure', 'no array', 1],
  ['structure', 'nothing', []],
  ['structure', 'another message', [4, 0]],
  ['structure', 'one member more', [...challenge(), 0]],
  ['structure', 'no map', [2, []]],
  ['structure', 'another version', challenge({ 1: 3 })],
  ['structure', 'a name that is none', challenge({ 2: 5 })],
  ['structure', 'a name of 41', challenge({ 2: 'a'.repeat(41) })],
  ['structure', 'a nonce of 15 bytes', challenge({ 3: NONCE.slice(1) })],
  ['structure', 'a time below 0', challenge({ 4: -1 })],
  ['structure', 'neither certain nor not', challenge({ 5: 2 })],
  ['structure', 'a kid of 7 bytes', challenge({ 12: KID.slice(1) })],
  ['structure', 'a member more', [2, new Map([...challenge()[1], [13, 0]])]],
  ['structure', 'a member that is skipped, and one too few', [2, new Map([...[...challenge()[1]].slice(0, 11), [128, 0]])]],
  ['structure', 'the last member below those that are skipped', [2, new Map([...challenge()[1], [127, 0]])]],
  ['structure', 'a text as key', [2, new Map([...challenge()[1], ['more', 0]])]],
  ['structure', 'no versions', [12, []]],
  ['structure', 'versions that are none', [12, 3]],
  ['structure', 'the version that was offered', [12, [2]]],
  ['structure', 'versions that descend', [12, [4, 3]]],
  ['structure', 'nine versions', [12, [3, 4, 5, 6, 7, 8, 9, 10, 11]]],
  ['structure', 'a message of tomorrow', [13, 0]],
  ['encoding', 'no item', Uint8Array.of(0xff)],
  ['encoding', 'something behind', Uint8Array.of(...encode(challenge()), 0)],
  ['too-long', 'more than 2,048 bytes', new Uint8Array(2049)],
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
  const texts = [34, 35, 36].map((number) => new BoxRefusal(number)).map(({ code, action }) => [code, action]);
  assert.deepEqual(texts, [['unknown', 'ask'], ['generation', 'online'], ['other-part', 'online']]);
  assert.equal(new BoxRefusal(999).code, 'refused');
});

/** A phone's conversation and its store, with a key and a list of the box from a response of the server. */
async function visiting(exchange, { now = NOW, askTime, ...options } = {}) {
  const store = new Store(new MemoryRecords(), () => now * 1000);
  const answer = await authority.answer(device.publicKey, options);
  if (options.boxKey === null) answer.boxes[0].boxKey = null;
  await store.takeKeys(answer, null, device.publicKey);
  return { store, conversation: new Conversation(exchange, device, store, askTime) };
}

async function numbers(store) {
  return (await store.state()).entries.map(({ number }) => number);
}

/** A box's answer to an open: its entry, with these claims replaced. */
function opened(claims = {}, signer = authority) {
  return async ([, , answer]) => {
    const { counter, command } = read(answer, 'answer').claims;
    const own = { counter, command, event: command, device: device.thumbprint };
    return [6, 0, await signer.entry(3, { ...own, ...claims })];
  };
}

const UP_TO_DATE = { 6: 1, 7: 1, 8: NOW };

test('the log is fetched until all of it is there, though the box gives few at a time', async () => {
  const entries = await Promise.all([1, 2, 3, 4, 5].map((number) => authority.entry(number)));
  const hello = challenge({ 10: 5 });
  const { asked, exchange } = answering(hello, [8, 5, entries.slice(0, 3)], [8, 6, entries.slice(3)]);
  const { store, conversation } = await visiting(exchange);
  await conversation.fetchLog();
  assert.deepEqual(asked.slice(1), [[7, 1], [7, 4]]);
  assert.deepEqual(await numbers(store), [1, 2, 3, 4, 5]);
});

test('no challenge comes between a command and the log, as it would end the proof', async () => {
  const entries = await Promise.all([1, 2].map((number) => authority.entry(number)));
  const { asked, exchange } = answering(challenge(UP_TO_DATE), opened(), [8, 4, entries]);
  const { store, conversation } = await visiting(exchange);
  await conversation.open();
  await conversation.fetchLog();
  assert.deepEqual(asked.map(([kind]) => kind), [1, 5, 7]);
  assert.deepEqual(await numbers(store), [3, 1, 2]);
});

test('a box that gives the same entries again and again is not asked for ever', async () => {
  const again = [8, 9, [await authority.entry(1)]];
  const { exchange } = answering(challenge(), again, again);
  const { conversation } = await visiting(exchange);
  await assert.rejects(conversation.fetchLog(), refusedAs('structure'));
});

test('entries that were turned on their way are kept and given to the app with a low s', async () => {
  const entries = (await Promise.all([1, 2, 4].map((number) => authority.entry(number)))).map(withHighS);
  const opening = async (asked) => (await opened()(asked)).map((part) => (part instanceof Uint8Array ? withHighS(part) : part));
  const { exchange } = answering(challenge(UP_TO_DATE), opening, [8, 5, entries]);
  const { store, conversation } = await visiting(exchange);
  const { entry } = await conversation.open();
  await conversation.fetchLog();
  const kept = (await store.state()).entries.map(({ message }) => message);
  assert.deepEqual(kept[0], entry);
  assert.ok(kept.every(hasLowS));
  assert.deepEqual(kept.slice(1).map(withHighS), entries);
});

const stranger = await Authority.make();
const FORGED = [
  ['signature', 'an entry that another key has signed', () => stranger.entry(2)],
  ['signature', 'an entry with another signature', async () => (await authority.entry(2)).with(-1, 0).with(-2, 0)],
  ['audience', 'an entry of another box', () => authority.entry(2, { aud: 'box:1042:1' })],
  ['claims', 'an entry that gives up its own number', () => authority.entry(2, { first: 3 })],
  ['typ', 'a receipt', () => authority.receipt(2)],
];

for (const [code, what, forge] of FORGED) {
  test(`not brought home, ${code}: ${what}`, async () => {
    const log = [8, 4, [await authority.entry(1), await forge()]];
    const { store, conversation } = await visiting(answering(challenge(UP_TO_DATE), log).exchange);
    await assert.rejects(conversation.fetchLog(), refusedAs(code));
    const refusing = answering(challenge(UP_TO_DATE), [6, 19, await forge()]);
    await assert.rejects(new Conversation(refusing.exchange, device, store).open(), { code: 'stale' });
    const opening = answering(challenge(UP_TO_DATE), [6, 0, await forge()]);
    const unknown = await new Conversation(opening.exchange, device, store).open().catch((error) => error);
    assert.deepEqual([unknown.name, unknown.cause.code], ['OutcomeUnknown', code]);
    assert.deepEqual(await numbers(store), []);
  });
}

test('a box is open only where its log says so, of this very command', async () => {
  const unproven = [
    async () => [6, 0, new Uint8Array()], opened({ event: 3, code: 18 }), opened({ event: 2, command: 2 }),
    opened({ counter: 5 }), opened({ device: HASH }), opened({}, stranger),
  ];
  for (const result of unproven) {
    const { conversation, store } = await visiting(answering(challenge(UP_TO_DATE), result).exchange);
    await assert.rejects(conversation.open(), { name: 'OutcomeUnknown', action: 'look' });
    assert.deepEqual(await numbers(store), []);
  }
  const { conversation, store } = await visiting(answering(challenge(UP_TO_DATE), opened()).exchange);
  assert.equal((await conversation.open()).box, BOX);
  assert.deepEqual(await numbers(store), [3]);
});

test('the entry of a refusal is kept', async () => {
  const { conversation, store } = await visiting(answering(challenge(UP_TO_DATE), [6, 19, await authority.entry(3)]).exchange);
  await assert.rejects(conversation.open(), { code: 'stale' });
  assert.deepEqual(await numbers(store), [3]);
});

test('without the key of the box, entries are kept by their names', async () => {
  const log = [8, 3, [await stranger.entry(1), await stranger.entry(2)]];
  const { conversation, store } = await visiting(answering(challenge(UP_TO_DATE), log).exchange, { boxKey: null });
  await conversation.fetchLog();
  assert.deepEqual(await numbers(store), [1, 2]);
});

test('the log of a box without a list here is not fetched', async () => {
  const { asked, exchange } = answering(challenge({ 2: 'box:1042:1' }));
  const { conversation } = await visiting(exchange);
  await assert.rejects(conversation.fetchLog(), { name: 'NoKey', box: 'box:1042:1' });
  assert.deepEqual(asked.length, 1);
});

test('new roots and the key set come first, then the time, then lists', async () => {
  const before = authority.root;
  const roots = await authority.newRoots(2, 3);
  const time = await authority.time(NONCE);
  const has = { 6: 1, 7: 1, 8: NOW, 12: before.kid };
  const { asked, exchange } = answering(
    challenge({ ...has, 5: 0 }), [4, 0], [4, 0], [4, 0],
    challenge({ ...has, 5: 0, 6: 4, 12: authority.root.kid }), [4, 0],
    challenge({ ...has, 6: 4, 7: 0, 8: 0, 12: authority.root.kid }), [4, 0],
    challenge({ ...has, 6: 4, 12: authority.root.kid }), opened(),
  );
  const { conversation, store } = await visiting(exchange, { roots, sequence: 4, askTime: async () => time });
  await conversation.open();
  const { keySet, lists: [list] } = await store.state();
  const carried = asked.filter(([kind]) => kind === 3).map(([, artefact]) => artefact);
  assert.deepEqual(carried, [...roots, keySet.message, time, list.message]);
});

test('a clock that differs from the phone is set, where there is a network', async () => {
  const time = await authority.time(NONCE);
  const visit = async (now, askTime) => {
    const { asked, exchange } = answering(challenge(UP_TO_DATE), [4, 0], challenge(UP_TO_DATE));
    const { conversation } = await visiting(exchange, { now, askTime });
    await conversation.greet();
    return asked.map(([kind]) => kind);
  };
  for (const now of [NOW - 301, NOW + 301]) assert.deepEqual(await visit(now, async () => time), [1, 3, 1]);
  for (const now of [NOW - 300, NOW + 300]) assert.deepEqual(await visit(now, async () => time), [1]);
  assert.deepEqual(await visit(NOW + 301, async () => { throw new TypeError('no network'); }), [1]);
});

test('no key opens another box than the wanted one', async () => {
  const opening = async (productId) => {
    const { asked, exchange } = answering(challenge(UP_TO_DATE), opened());
    const { store } = await visiting(exchange);
    const conversation = new Conversation(exchange, device, store, undefined, productId);
    const outcome = await conversation.open().catch((error) => error);
    return { outcome, kinds: asked.map(([kind]) => kind) };
  };
  const { outcome, kinds } = await opening(104);
  assert.deepEqual([outcome.name, outcome.box, outcome.action, kinds], ['OtherBox', BOX, 'again', [1]]);
  assert.deepEqual((await opening(1041)).outcome.box, BOX);
  const fresh = new Conversation(answering(challenge({ 2: '' })).exchange, device, new Store(), undefined, 1041);
  await assert.rejects(fresh.open(), { name: 'NoKey', message: 'The box is not set up yet.' });
});

test('a box that stays busy has done nothing', async () => {
  const exchange = answering(challenge(UP_TO_DATE), () => { throw new BoxBusy(); }).exchange;
  const { conversation } = await visiting(exchange);
  const expected = { name: 'BoxBusy', message: 'The box is busy.', action: 'wait', sent: 'none' };
  await assert.rejects(conversation.open(), expected);
});

test('without a key nothing is opened', async () => {
  const without = (answer) => new Conversation(answering(answer).exchange, device, new Store()).open();
  await assert.rejects(without(challenge()), { name: 'NoKey', box: BOX });
  await assert.rejects(without(challenge({ 2: '' })), { name: 'NoKey', message: 'The box is not set up yet.' });
});
