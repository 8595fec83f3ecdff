/**
 * Whole conversations with the box of the Python reference, behind the bridge of tests/offline_keys/phone_bridge.py.
 */

import assert from 'node:assert/strict';
import { test as testOfNode } from 'node:test';

import { toBase64url } from '../bytes.js';
import { encode } from '../cbor.js';
import { DeviceKey } from '../keys.js';
import { Link, TransportLost } from '../link.js';
import { Phone } from '../phone.js';
import { MemoryRecords, Store } from '../store.js';
import { BRIDGE, World } from './world.js';

const BOX = 'box:1041:3';
const DAY = 86_400;
const HOUR = 3_600;
const options = { skip: BRIDGE === undefined && 'tests/offline_keys/test_js_phone.py starts a box' };

function test(what, body) {
  testOfNode(what, options, body);
}

async function kept(phone) {
  return (await phone.store.state()).entries.map(({ number }) => number);
}

function storeWith(state, now = Date.now) {
  return new Store(new MemoryRecords(state), now);
}

test('a phone opens and closes, and brings the proof home', async () => {
  const world = await World.make();
  const { phone, at, meet } = await world.phone();
  const conversation = at();
  const opened = await conversation.open();
  assert.equal(opened.box, BOX);
  assert.equal(opened.key.assignmentId, 4711);
  await conversation.close();
  assert.deepEqual((await world.seen()).effects, ['OPEN', 'CLOSE']);
  assert.deepEqual(await kept(phone), [2, 3]);
  await meet();
  assert.deepEqual((await world.seen()).home, [2, 3]);
  assert.deepEqual(await kept(phone), []);
});

test('a revoked key opens until somebody carries the list', async () => {
  const world = await World.make();
  const [alice, bob] = [await world.phone(), await world.phone()];
  await world.do('seconds_pass', { seconds: HOUR });
  await world.do('revoke', { device: alice.phone.device.id });
  await alice.at().open();
  await bob.meet();
  await bob.at().open();
  await assert.rejects(alice.at().open(), { name: 'BoxRefusal', code: 'revoked', action: 'ask' });
  assert.deepEqual((await world.seen()).effects, ['OPEN', 'OPEN']);
  assert.equal((await kept(alice.phone)).length, 2, 'the refusal is brought home, too');
});

test('a revoked phone carries the list itself', async () => {
  const world = await World.make();
  const { phone, at, meet } = await world.phone();
  const { keys } = await phone.store.state();
  await world.do('seconds_pass', { seconds: 1 });
  await world.do('revoke', { device: phone.device.id });
  await meet();
  await assert.rejects(at().open(), { name: 'NoKey', action: 'online' });
  const withKeys = new Phone(phone.device, storeWith({ ...(await phone.store.state()), keys }), phone.server);
  await assert.rejects(withKeys.at(world.link()).open(), { code: 'revoked' });
});

test('a key opens though another one of the same phone was revoked', async () => {
  const world = await World.make();
  const [alice, bob] = [await world.phone(), await world.phone()];
  const { phone } = alice;
  const { keys: first } = await phone.store.state();
  await world.do('seconds_pass', { seconds: HOUR });
  await world.do('change', { limit: 2 * DAY });
  await alice.meet();
  const { keys: second, ...others } = await phone.store.state();
  await world.do('seconds_pass', { seconds: HOUR });
  await world.do('revoke', { device: phone.device.id });
  await bob.meet();
  await bob.at().open();
  const store = storeWith({ ...others, keys: [...first, ...second] }, () => Date.now() + 2 * HOUR * 1000);
  const withBoth = new Phone(phone.device, store, phone.server);
  const { key } = await withBoth.at(world.link()).open();
  assert.deepEqual(key, first[0]);
  const { codes, effects } = await world.seen();
  assert.deepEqual([codes, effects], [['revoked'], ['OPEN', 'OPEN']]);
});

test('a stale box hears of a newer list, and opens', async () => {
  const world = await World.make({ limit: HOUR });
  const { at, meet } = await world.phone();
  await world.do('seconds_pass', { seconds: HOUR + 1 });
  await assert.rejects(at().open(), { code: 'stale', action: 'online' });
  await meet();
  await at().open();
  assert.deepEqual((await world.seen()).effects, ['OPEN']);
});

test('an expired key opens nothing, and the next one does', async () => {
  const world = await World.make();
  const { at, meet } = await world.phone();
  await world.do('seconds_pass', { seconds: 7 * DAY + 299 });
  await at().open().catch((error) => assert.equal(error.code, 'stale'));
  await world.do('seconds_pass', { seconds: 1 });
  await assert.rejects(at().open(), { code: 'expired', message: 'The key has expired.' });
  await meet();
  await at().open();
});

test('a key that does not hold yet opens nothing', async () => {
  const world = await World.make({ begins: HOUR });
  const { at } = await world.phone();
  await assert.rejects(at().open(), { code: 'not-yet', action: 'wait' });
  await world.do('seconds_pass', { seconds: HOUR - 300 });
  await at().open();
});

test('a key without the right does not close', async () => {
  const world = await World.make({ rights: [1] });
  const { at } = await world.phone();
  await at().open();
  await assert.rejects(at().close(), { code: 'right', action: 'ask' });
});

test('a new key set goes to the box before what it has signed', async () => {
  const world = await World.make();
  const { at, meet } = await world.phone();
  await world.do('seconds_pass', { seconds: 1 });
  await world.do('rotate');
  await meet();
  await at().open();
  assert.equal((await world.seen()).sequence, 2);
});

test('a box that has slept through new roots is brought on from one to the next', async () => {
  const world = await World.make();
  const { phone, at, meet } = await world.phone();
  for (let times = 0; times < 3; times += 1) await world.do('replace_root');
  await world.do('rotate');
  await meet();
  await at().open();
  const { sequence, root } = await world.seen();
  const { roots, keySet } = await phone.store.state();
  assert.equal(roots.length, 3);
  assert.deepEqual({ sequence, root }, { sequence: keySet.sequence, root: toBase64url(roots[2].kid) });
});

test('a box that knows no time is brought one before the lists that are far ahead of it', async () => {
  const world = await World.make();
  const { network, at, meet } = await world.phone();
  await world.do('seconds_pass', { seconds: 30 * DAY });
  await world.do('power_is_cut');
  await world.do('rotate');
  await meet();
  await assert.rejects(at().open(), { code: 'future', action: 'online' });
  network.isThere = true;
  await at().open();
  const { certain, effects } = await world.seen();
  assert.deepEqual({ certain, effects }, { certain: true, effects: ['OPEN'] });
});

test('both generations of lists are carried', async () => {
  const world = await World.make();
  const [alice, bob] = [await world.phone(), await world.phone()];
  await world.do('begin_generation');
  await world.do('seconds_pass', { seconds: 1 });
  await world.do('revoke', { device: alice.phone.device.id });
  await bob.meet();
  await bob.at().open();
  assert.deepEqual((await world.seen()).lists, [2, 1]);
  await assert.rejects(alice.at().open(), { code: 'revoked' });
});

test('a receipt frees the log of the box', async () => {
  const world = await World.make();
  const { at, meet } = await world.phone();
  const conversation = at();
  await conversation.open();
  await conversation.fetchLog();
  assert.equal((await world.seen()).first, 1);
  await meet();
  assert.deepEqual((await world.seen()).home, [1, 2]);
  await at().open();
  const { first, next } = await world.seen();
  assert.deepEqual({ first, next }, { first: 3, next: 4 });
});

test('another phone fetches the whole log', async () => {
  const world = await World.make();
  const [alice, bob] = [await world.phone(), await world.phone()];
  for (let times = 0; times < 9; times += 1) await alice.at().open();
  const conversation = bob.at();
  await conversation.open();
  await conversation.fetchLog();
  assert.deepEqual((await kept(bob.phone)).sort((one, other) => one - other), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  await bob.meet();
  assert.equal((await world.seen()).home.length, 11);
});

test('a phone whose key is stale fetches the log, too', async () => {
  const world = await World.make({ limit: HOUR });
  const { phone, at } = await world.phone();
  await world.do('seconds_pass', { seconds: HOUR + 1 });
  const conversation = at();
  await assert.rejects(conversation.open(), { code: 'stale' });
  await conversation.fetchLog();
  assert.deepEqual((await kept(phone)).sort(), [1, 2]);
});

test('a question for a new challenge ends the proof', async () => {
  const world = await World.make();
  const conversation = (await world.phone()).at();
  await conversation.open();
  await conversation.greet();
  await assert.rejects(conversation.fetchLog(), { code: 'refused' });
});

test('no entry of a fake box is brought home', async () => {
  const [world, other] = [await World.make(), await World.make()];
  const { phone } = await world.phone();
  const elsewhere = await other.phone();
  const { entry } = await elsewhere.at().open();
  const fake = async (message) => (message[1] === 5 ? encode([6, 0, entry]) : world.link()(message));
  const unknown = await phone.at(fake).open().catch((error) => error);
  assert.deepEqual([unknown.name, unknown.cause.code], ['OutcomeUnknown', 'signature']);
  assert.deepEqual(await kept(phone), []);
});

test('who has proven nothing on this link is not told the log', async () => {
  const world = await World.make();
  const { at } = await world.phone();
  await at(0).open();
  await assert.rejects(at(1).fetchLog(), { code: 'refused' });
});

test('an uncertain clock is made certain where there is a network', async () => {
  const world = await World.make();
  const { network, at } = await world.phone();
  await world.do('power_is_cut');
  await assert.rejects(at().open(), { code: 'uncertain', action: 'online' });
  network.isThere = true;
  await at().open();
  assert.equal((await world.seen()).certain, true);
});

test('with the right for it, a key opens while the clock is uncertain', async () => {
  const world = await World.make({ rights: [1, 2, 3] });
  const { at } = await world.phone();
  await world.do('power_is_cut');
  await at().open();
  assert.equal((await world.seen()).certain, false);
});

test('a challenge that took too long opens nothing', async () => {
  const world = await World.make();
  const { phone } = await world.phone();
  const slow = async (message) => {
    if (message[1] === 5) await world.do('seconds_pass', { seconds: 10 });
    return world.link()(message);
  };
  await assert.rejects(phone.at(slow).open(), { code: 'refused' });
  assert.deepEqual((await world.seen()).codes, ['nonce']);
});

test('a list that takes long to carry costs no opening', async () => {
  const world = await World.make();
  const { phone, meet } = await world.phone();
  await world.do('seconds_pass', { seconds: 1 });
  await meet();
  const slow = async (message) => {
    if (message[1] === 3) await world.do('seconds_pass', { seconds: 10 });
    return world.link()(message);
  };
  await phone.at(slow).open();
  assert.deepEqual((await world.seen()).effects, ['OPEN']);
});

test('a challenge that was altered opens nothing', async () => {
  const world = await World.make();
  const { phone } = await world.phone();
  const altering = async (message) => {
    const answer = await world.link()(message);
    if (answer[1] === 2) answer[answer.length - 1] ^= 1; // the hash of the newest entry
    return answer;
  };
  await assert.rejects(phone.at(altering).open(), { name: 'BoxRefusal' });
  assert.deepEqual((await world.seen()).codes, ['challenge']);
});

test('an open that is said twice opens once', async () => {
  const world = await World.make();
  const { phone } = await world.phone();
  const replies = [];
  const twice = async (message) => {
    const answer = await world.link()(message);
    if (message[1] === 5) replies.push(await new Link(world.link()).open(message, message).catch((error) => error));
    return answer;
  };
  await phone.at(twice).open();
  assert.deepEqual((await world.seen()).effects, ['OPEN']);
  assert.equal(replies[0].code, 1);
});

test('another phone cannot use a key', async () => {
  const world = await World.make();
  const [alice, mallory] = [await world.phone(), await world.phone()];
  const store = storeWith(await alice.phone.store.state());
  await assert.rejects(new Phone(mallory.phone.device, store, mallory.phone.server).at(world.link()).open(), { code: 'refused' });
  assert.deepEqual((await world.seen()).effects, []);
});

test('a phone that was set back is refused, and one that was installed anew is not', async () => {
  const world = await World.make();
  const { phone, at } = await world.phone();
  const before = await phone.store.state();
  await at().open();
  const anew = new Phone(phone.device, storeWith({ ...before, counter: 0 }), phone.server);
  await anew.at(world.link()).open();
  const back = storeWith({ ...before, counter: 1 }, () => 0);
  await assert.rejects(new Phone(phone.device, back, phone.server).at(world.link()).open(), { code: 'counter' });
});

test('a store that was kept goes on where it was', async () => {
  const world = await World.make();
  const { phone, at } = await world.phone();
  await at().open();
  const [pair, state] = structuredClone([phone.device.pair, await phone.store.state()]);
  const again = new Phone(await DeviceKey.of(pair), storeWith(state), phone.server);
  await again.at(world.link()).open();
  assert.equal((await kept(again)).length, 2);
});

test('an opening without an answer is unknown, and the next link tells where nothing has happened', async () => {
  const world = await World.make();
  const { phone, at } = await world.phone();
  const losing = (reaches) => async (message) => {
    if (message[1] !== 5) return world.link()(message);
    if (reaches) await world.link()(message);
    throw new TransportLost('all');
  };
  const lost = await phone.at(losing(false)).open().catch((error) => error);
  assert.deepEqual([lost.name, lost.box, lost.action], ['OutcomeUnknown', BOX, 'look']);
  assert.equal(await at().hasDoneNothing(lost), true);
  const done = await phone.at(losing(true)).open().catch((error) => error);
  assert.equal(done.name, 'OutcomeUnknown');
  assert.equal(await at().hasDoneNothing(done), false);
  assert.deepEqual((await world.seen()).effects, ['OPEN']);
});

test('what is no answer leaves the outcome unknown, too', async () => {
  const world = await World.make();
  const { phone } = await world.phone();
  const garbling = async (message) => {
    const answer = await world.link()(message);
    return message[1] === 5 ? Uint8Array.of(0xff) : answer;
  };
  await assert.rejects(phone.at(garbling).open(), { name: 'OutcomeUnknown' });
  assert.deepEqual((await world.seen()).effects, ['OPEN']);
});

test('a command of which only a part was sent has done nothing', async () => {
  const world = await World.make();
  const { phone } = await world.phone();
  const losing = async (message) => {
    if (message[1] === 5) throw new TransportLost('part');
    return world.link()(message);
  };
  await assert.rejects(phone.at(losing).open(), { name: 'TransportLost', action: 'again' });
  assert.deepEqual((await world.seen()).effects, []);
});
