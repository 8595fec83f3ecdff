/**
 * A box behind a fake Web Bluetooth, for faults and times that no emulation of a browser makes.
 *
 * The clock stands still. `pass` lets time pass, and everything that is due happens.
 */

import { mock } from 'node:test';

import { FROM_BOX, SERVICE, SIZE, TO_BOX, WebBluetooth } from '../bluetooth.js';
import { Command, Reassembly, split } from '../fragments.js';

const NEVER = new Promise(() => {});
let now = 0;

/** Stop the clock, until the end of this test. */
export function stopClock(t) {
  now = 0;
  mock.timers.enable({ apis: ['setTimeout'] });
  mock.method(performance, 'now', () => now);
  t.after(() => {
    mock.timers.reset();
    mock.restoreAll();
  });
}

export async function pass(ms) {
  await settled();
  now += ms;
  mock.timers.tick(ms);
  await settled();
}

/** Let everything happen that is not due at a time. */
function settled() {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The state of a promise, and its result. */
export function watched(promise) {
  const state = { isOver: false, value: undefined, error: undefined };
  const end = (outcome) => Object.assign(state, { isOver: true, ...outcome });
  promise.then((value) => end({ value }), (error) => end({ error }));
  return state;
}

class Characteristic extends EventTarget {
  async startNotifications() {
    return this;
  }
}

/** A device with a GATT server. Each test replaces what differs. */
export class FakeBox extends EventTarget {
  name = 'K-GSW3AD';
  sizeValue = [1, 0, 20];
  written = []; // fragments
  messages = [];
  connections = 0;
  chosen = []; // options of the choosers
  reassembly = new Reassembly(Command.MESSAGE);
  #buffer = new ArrayBuffer(600);

  constructor(behaviour = {}) {
    super();
    this.gatt = {
      connected: false,
      connect: () => this.connect(),
      disconnect: () => this.vanish(),
      getPrimaryService: async (uuid) => this.service(uuid),
    };
    Object.assign(this, behaviour);
  }

  async connect() {
    this.connections += 1;
    this.reassembly.clear();
    this.gatt.connected = true;
    const toBox = Object.assign(new Characteristic(), { writeValueWithResponse: (value) => this.write(value) });
    const readValue = async () => new DataView(Uint8Array.from(this.sizeValue).buffer);
    const size = Object.assign(new Characteristic(), { readValue });
    this.fromBox = new Characteristic();
    this.characteristics = { [TO_BOX]: toBox, [FROM_BOX]: this.fromBox, [SIZE]: size };
    return this.gatt;
  }

  service(uuid) {
    if (uuid !== SERVICE) throw new DOMException('no such service', 'NotFoundError');
    return { getCharacteristic: async (each) => this.characteristics[each] };
  }

  /** The link ends, as if the box had gone. */
  vanish() {
    if (!this.gatt.connected) return;
    this.gatt.connected = false;
    this.dispatchEvent(new Event('gattserverdisconnected'));
  }

  /** A fragment is written. The response comes at once. */
  async write(value) {
    this.take(value);
  }

  take(value) {
    this.written.push(Uint8Array.from(value));
    const whole = this.reassembly.accept(value, now);
    if (whole === null) return;
    this.messages.push(whole.data);
    queueMicrotask(() => this.answer(whole.data));
  }

  /** The answer to a message: the message itself. */
  answer(message) {
    this.send(...split(message, this.sizeValue[2]));
  }

  /** Send notifications. Their memory is used again for the next one. */
  send(...fragments) {
    for (const fragment of fragments) {
      const bytes = new Uint8Array(this.#buffer, 7, fragment.length);
      bytes.set(fragment);
      this.fromBox.value = new DataView(this.#buffer, 7, fragment.length);
      this.fromBox.dispatchEvent(new Event('characteristicvaluechanged'));
      bytes.fill(0xff);
    }
  }

  error(code) {
    this.send(Uint8Array.of(Command.ERROR, 0, 1, code));
  }

  keepAlive() {
    this.send(Uint8Array.of(Command.KEEP_ALIVE, 0, 1, 1));
  }

  /** The Web Bluetooth of a browser in which the user chooses this box. */
  bluetooth(others = {}, locks = null) {
    const requestDevice = async (options) => {
      this.chosen.push(options);
      return this;
    };
    return new WebBluetooth({ requestDevice, getAvailability: async () => true, ...others }, locks);
  }

  /** The box as an app has it, with a link. */
  async found() {
    const box = await this.bluetooth().find([]);
    await box.connect();
    return box;
  }
}

/** Behaviour of a box that settles no write from the given one on. */
export function deafFrom(place) {
  return {
    write(value) {
      this.take(value);
      return this.written.length > place ? NEVER : Promise.resolve();
    },
  };
}

export { NEVER };
