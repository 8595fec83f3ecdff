/**
 * Faults and times of Web Bluetooth. tests/offline_keys/test_web_bluetooth.py uses the one of a browser.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FROM_BOX, SERVICE, WebBluetooth } from '../bluetooth.js';
import { LONGEST } from '../link.js';
import { deafFrom, FakeBox, NEVER, pass, stopClock, watched } from './gatt.js';

const SHORT = Uint8Array.of(0x82, 1, 0x81, 2); // one fragment
const LONG = Uint8Array.from({ length: 100 }, (_, place) => place); // six fragments of 20 bytes
const CONTINUATION = Uint8Array.of(0, 0xc0);

/** A box of this behaviour with a link, and a standing clock. */
async function nearby(t, behaviour) {
  stopClock(t);
  const fake = new FakeBox(behaviour);
  return { fake, box: await fake.found() };
}

/** Check that a call has ended with this loss, and the link with it. */
function assertLost(state, sent, box) {
  const { error: { name, action, sent: part } } = state;
  assert.deepEqual([name, action, part], ['TransportLost', 'again', sent]);
  assert.equal(box.isConnected, false);
}

test('messages travel in fragments of at most the size of the connection', async (t) => {
  const { fake, box } = await nearby(t, { sizeValue: [1, 0, 182] });
  for (const length of [1, 179, 180, LONGEST]) {
    const message = Uint8Array.from({ length }, (_, place) => place % 251);
    assert.deepEqual(await box.exchange(message), message);
  }
  assert.ok(fake.written.every((fragment) => fragment.length <= 182));
  assert.equal(fake.connections, 1);
});

test('a second call waits for the first', async (t) => {
  const { fake, box } = await nearby(t, { answer: () => undefined });
  const [first, second] = [watched(box.exchange(LONG)), watched(box.exchange(SHORT))];
  await pass(100);
  assert.deepEqual([fake.messages, first.isOver], [[LONG], false]);
  FakeBox.prototype.answer.call(fake, LONG);
  await pass(0);
  assert.deepEqual([first.value, fake.messages], [LONG, [LONG, SHORT]]);
  FakeBox.prototype.answer.call(fake, SHORT);
  await pass(0);
  assert.deepEqual(second.value, SHORT);
});

test('a reply may come before the last write is settled, and the next message waits for it', async (t) => {
  const settle = [];
  const { fake, box } = await nearby(t, {
    write(value) {
      this.take(value);
      return new Promise((resolve) => settle.push(resolve));
    },
  });
  assert.deepEqual(await box.exchange(SHORT), SHORT);
  const next = watched(box.exchange(SHORT));
  await pass(0);
  assert.equal(fake.written.length, 1);
  settle[0]();
  await pass(0);
  assert.deepEqual([next.value, fake.written.length], [SHORT, 2]);
});

test('a message that waits for a write in vain was not sent', async (t) => {
  const { fake, box } = await nearby(t, deafFrom(0));
  assert.deepEqual(await box.exchange(SHORT), SHORT);
  const next = watched(box.exchange(SHORT));
  await pass(5_000);
  assertLost(next, 'none', box);
  assert.equal(fake.written.length, 1);
});

test('a box that is silent for 5 s is lost', async (t) => {
  const { fake, box } = await nearby(t, { answer: () => undefined });
  const call = watched(box.exchange(LONG));
  await pass(4_999);
  assert.equal(call.isOver, false);
  await pass(1);
  assertLost(call, 'all', box);
  assert.equal(fake.gatt.connected, false);
});

test('keep-alive fragments lengthen the wait, up to 20 s', async (t) => {
  const { fake, box } = await nearby(t, { answer: () => undefined });
  const call = watched(box.exchange(LONG));
  for (let second = 0; second < 19; second += 1) {
    await pass(1_000);
    fake.keepAlive();
  }
  await pass(999);
  assert.equal(call.isOver, false);
  await pass(1);
  assertLost(call, 'all', box);
});

test('a reply that comes slowly is received', async (t) => {
  const { fake, box } = await nearby(t, { answer: () => undefined });
  const call = watched(box.exchange(SHORT));
  await pass(4_900);
  fake.keepAlive();
  await pass(4_900);
  fake.send(Uint8Array.of(0x83, 0, 2, 0xc0));
  await pass(1_000);
  fake.send(Uint8Array.of(0, 0xc1));
  await pass(0);
  assert.deepEqual(call.value, Uint8Array.of(0xc0, 0xc1));
});

test('slow writes are waited for, each for 5 s', async (t) => {
  const settle = [];
  const { box } = await nearby(t, {
    write(value) {
      return new Promise((resolve) => settle.push(() => resolve(this.written.push(value))));
    },
  });
  const call = watched(box.exchange(LONG));
  for (let place = 0; place < 3; place += 1) {
    await pass(4_999);
    settle[place]();
  }
  await pass(4_999);
  assert.equal(call.isOver, false);
  await pass(1);
  assertLost(call, 'part', box);
});

for (const [place, sent] of [[0, 'part'], [4, 'part'], [5, 'all']]) {
  test(`write ${place + 1} of 6 is never settled: ${sent} was sent`, async (t) => {
    const { fake, box } = await nearby(t, { ...deafFrom(place), answer: () => undefined });
    const call = watched(box.exchange(LONG));
    await pass(4_999);
    assert.equal(call.isOver, false);
    await pass(1);
    assertLost(call, sent, box);
    assert.equal(fake.written.length, place + 1);
  });

  test(`write ${place + 1} of 6 fails: ${sent} was sent`, async (t) => {
    const { fake, box } = await nearby(t, {
      async write(value) {
        if (this.written.length === place) throw new DOMException('gone', 'NetworkError');
        this.take(value);
      },
    });
    const call = watched(box.exchange(LONG));
    await pass(0);
    assertLost(call, sent, box);
    assert.equal(call.error.cause.name, 'NetworkError');
    assert.equal(fake.written.length, place);
  });
}

test('a write that is never settled holds up no later link', async (t) => {
  const { fake, box } = await nearby(t, deafFrom(2));
  const call = watched(box.exchange(LONG));
  await pass(0);
  fake.vanish();
  await pass(0);
  assertLost(call, 'part', box);
  delete fake.write;
  await box.connect();
  assert.deepEqual(await box.exchange(SHORT), SHORT);
});

test('nothing more is written after the link has ended', async (t) => {
  const { fake, box } = await nearby(t, {
    async write(value) {
      this.take(value);
      if (this.written.length === 2) this.vanish();
    },
  });
  const call = watched(box.exchange(LONG));
  await pass(0);
  assertLost(call, 'part', box);
  assert.equal(fake.written.length, 2);
});

test('a box that goes before it replies is lost at once, and can be connected again', async (t) => {
  const { fake, box } = await nearby(t, {
    answer() {
      this.send(Uint8Array.of(0x83, 0, 2, 0xc0));
      this.vanish();
    },
  });
  const call = watched(box.exchange(SHORT));
  await pass(0);
  assertLost(call, 'all', box);
  await assert.rejects(box.exchange(SHORT), { name: 'TransportLost', sent: 'none' });
  delete fake.answer;
  await box.connect();
  assert.deepEqual(await box.exchange(LONG), LONG);
  assert.equal(fake.connections, 2);
});

test('an app can close the link during an exchange', async (t) => {
  const { fake, box } = await nearby(t, { answer: () => undefined });
  const call = watched(box.exchange(SHORT));
  await pass(0);
  await box.close();
  await pass(0);
  assertLost(call, 'all', box);
  assert.equal(fake.gatt.connected, false);
});

test('a message to a busy box is sent again until there is room', async (t) => {
  t.mock.method(Math, 'random', () => 0.5);
  let busy = 2;
  const { fake, box } = await nearby(t, {
    async write(value) {
      if (busy === 0) return this.take(value);
      busy -= 1;
      this.written.push(value);
      return this.error(6);
    },
  });
  const call = watched(box.exchange(LONG));
  await pass(349);
  assert.equal(fake.written.length, 1, 'the rest is not sent');
  await pass(1);
  assert.equal(fake.written.length, 2);
  await pass(350);
  assert.deepEqual(call.value, LONG);
  assert.deepEqual(fake.messages, [LONG]);
});

test('the pauses before a busy box are 200 to 500 ms', async (t) => {
  for (const [random, ms] of [[0, 200], [1, 500]]) {
    await t.test(`${ms} ms`, async (t) => {
      t.mock.method(Math, 'random', () => random);
      const { fake, box } = await nearby(t, { async write(value) { this.written.push(value); this.error(6); } });
      const call = watched(box.exchange(SHORT));
      await pass(ms - 1);
      assert.equal(fake.written.length, 1);
      await pass(1);
      assert.equal(fake.written.length, 2);
      await box.close();
      await pass(500);
      assertLost(call, 'none', box);
    });
  }
});

test('a box that is busy for 10 s has done nothing, and its link stays', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  const { fake, box } = await nearby(t, { async write(value) { this.written.push(value); this.error(6); } });
  const call = watched(box.exchange(SHORT));
  for (let times = 0; times < 19; times += 1) await pass(500);
  assert.equal(call.isOver, false);
  await pass(500);
  assert.deepEqual([call.error.name, call.error.sent, call.error.action], ['BoxBusy', 'none', 'wait']);
  assert.equal(fake.written.length, 21);
  assert.equal(box.isConnected, true);
});

test('errors that a busy box reports late are no answer to the next message', async (t) => {
  t.mock.method(Math, 'random', () => 1);
  const { fake, box } = await nearby(t, { write: async () => undefined });
  const call = watched(box.exchange(LONG));
  await pass(0);
  fake.error(6);
  await pass(100);
  fake.error(6);
  fake.error(4);
  delete fake.write;
  await pass(400);
  assert.deepEqual(call.value, LONG);
});

for (const code of [1, 3, 4, 5, 0x7f, 0x42]) {
  test(`the error ${code} of a box ends the link`, async (t) => {
    const { box } = await nearby(t, { answer() { this.error(code); } });
    const call = watched(box.exchange(SHORT));
    await pass(0);
    assertLost(call, 'all', box);
  });
}

const FAULTS = [
  ['an unknown command', [Uint8Array.of(0x81, 0, 1, 0)]],
  ['a length of 2,049', [Uint8Array.of(0x83, 8, 1, 0)]],
  ['length 0', [Uint8Array.of(0x83, 0, 0)]],
  ['no bytes', [new Uint8Array()]],
  ['a gap', [Uint8Array.of(0x83, 0, 3, 1), Uint8Array.of(1, 2)]],
  ['a continuation without a beginning', [CONTINUATION]],
  ['too much data', [Uint8Array.of(0x83, 0, 1, 1, 2)]],
];

for (const [what, fragments] of FAULTS) {
  test(`a reply with a fault ends the link: ${what}`, async (t) => {
    const { fake, box } = await nearby(t, { answer() { this.send(...fragments); } });
    const call = watched(box.exchange(SHORT));
    await pass(0);
    assertLost(call, 'all', box);
    assert.equal(call.error.cause.name, 'FragmentRejected');
    assert.equal(fake.gatt.connected, false);
  });
}

test('a fragment of a reply that is late ends the link', async (t) => {
  const { fake, box } = await nearby(t, { answer: () => undefined });
  const call = watched(box.exchange(SHORT));
  await pass(0);
  fake.send(Uint8Array.of(0x83, 0, 2, 0xc0));
  await pass(1_001);
  fake.send(CONTINUATION);
  await pass(0);
  assertLost(call, 'all', box);
  assert.equal(call.error.cause.code, 5);
});

test('a reply before the end of the message ends the link', async (t) => {
  const { box } = await nearby(t, { async write() { this.answer(SHORT); } });
  const call = watched(box.exchange(LONG));
  await pass(0);
  assertLost(call, 'part', box);
});

test('what a box sends without a request is ignored', async (t) => {
  const { fake, box } = await nearby(t);
  fake.send(Uint8Array.of(0x83, 0, 9, 0xc0), CONTINUATION, Uint8Array.of(0x81));
  assert.deepEqual(await box.exchange(SHORT), SHORT);
});

test('a connection that does not come in 10 s is given up', async (t) => {
  const steps = {
    connect: { connect: () => NEVER },
    service: { service: () => NEVER },
    subscribe: { characteristics: { [FROM_BOX]: { addEventListener() {}, startNotifications: () => NEVER } } },
  };
  for (const [what, behaviour] of Object.entries(steps)) {
    await t.test(what, async (t) => {
      stopClock(t);
      const fake = new FakeBox();
      await fake.connect();
      Object.assign(fake, { connect: async () => fake.gatt, ...behaviour });
      const box = await fake.bluetooth().find([]);
      const call = watched(box.connect());
      await pass(9_999);
      assert.equal(call.isOver, false);
      await pass(1);
      assertLost(call, 'none', box);
      assert.equal(fake.gatt.connected, false);
    });
  }
});

test('a box that goes while it is connected is lost at once', async (t) => {
  stopClock(t);
  const fake = new FakeBox({ service: () => NEVER });
  const box = await fake.bluetooth().find([]);
  const call = watched(box.connect());
  await pass(0);
  fake.vanish();
  await pass(0);
  assertLost(call, 'none', box);
});

test('one page at a time is connected to a box', async (t) => {
  stopClock(t);
  const held = new Set();
  const locks = {
    async request(name, { ifAvailable }, work) {
      assert.equal(ifAvailable, true);
      if (held.has(name)) return work(null);
      held.add(name);
      return Promise.resolve(work({ name })).finally(() => held.delete(name));
    },
  };
  const fake = new FakeBox();
  const [first, second] = await Promise.all([0, 1].map(() => fake.bluetooth({}, locks).find([])));
  await first.connect();
  assert.deepEqual([...held], ['keyrack-box-K-GSW3AD']);
  await assert.rejects(second.connect(), { name: 'BoxBusy', sent: 'none', action: 'wait' });
  assert.deepEqual(await first.exchange(SHORT), SHORT, 'the link of the first page stays');
  await first.close();
  await second.connect();
  await assert.rejects(first.connect(), { name: 'BoxBusy' });
  fake.vanish();
  await first.connect();
  await first.close();
  await first.connect();
  assert.equal(first.isConnected, true, 'a page connects again at once');
});

test('a second connect begins no other link', async (t) => {
  const { fake, box } = await nearby(t);
  await Promise.all([box.connect(), box.connect()]);
  assert.equal(fake.connections, 1);
});

for (const value of [[], [1, 0], [2, 0, 20], [1, 0, 19], [1, 2, 1], [1, 0, 20, 0]]) {
  test(`an invalid size is refused: ${value}`, async (t) => {
    stopClock(t);
    const box = await new FakeBox({ sizeValue: value }).bluetooth().find([]);
    const call = watched(box.connect());
    await pass(0);
    assertLost(call, 'none', box);
  });
}

test('the chooser lists boxes by service and exact name, or by service', async () => {
  const fake = new FakeBox();
  const bluetooth = fake.bluetooth();
  const one = await bluetooth.find(['K-GSW3AD', 'K-40NZ0Y']);
  const again = await bluetooth.find([]);
  const services = [SERVICE];
  assert.deepEqual(fake.chosen.map(({ filters }) => filters), [
    [{ services, name: 'K-GSW3AD' }, { services, name: 'K-40NZ0Y' }], [{ services }],
  ]);
  assert.equal(one.name, 'K-GSW3AD');
  assert.equal(again, one, 'one device has one link');
});

test('nothing is awaited between the tap and the chooser', () => {
  const fake = new FakeBox();
  fake.bluetooth().find([]);
  assert.equal(fake.chosen.length, 1);
});

test('no choice and no adapter are told apart', async (t) => {
  const requestDevice = async () => { throw new DOMException('texts differ', 'NotFoundError'); };
  const finding = (getAvailability) => new WebBluetooth({ requestDevice, getAvailability }).find([]);
  assert.equal(await finding(async () => true), null);
  assert.equal(await finding(undefined), null);
  const expected = { name: 'NoBluetooth', action: 'ask', message: 'This app cannot use Bluetooth.' };
  await assert.rejects(finding(async () => false), expected);
  await assert.rejects(finding(async () => { throw new Error(); }), expected);
  stopClock(t);
  const call = watched(finding(() => NEVER));
  await pass(5_000);
  assert.equal(call.error.name, 'NoBluetooth');
});

test('a browser without Web Bluetooth says so', async () => {
  await assert.rejects(new WebBluetooth().find([]), { name: 'NoBluetooth' });
});

test('other errors of the chooser are those of the app', async () => {
  const requestDevice = async () => { throw new DOMException('no tap', 'SecurityError'); };
  await assert.rejects(new FakeBox().bluetooth({ requestDevice }).find([]), { name: 'SecurityError' });
});
