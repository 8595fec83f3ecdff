/**
 * Boxes over Web Bluetooth (docs/key-bluetooth.md, "What the phone does").
 *
 * A promise of Web Bluetooth may never settle if the box has gone, so the time of each wait is limited. A lost link is
 * not repaired: the nonce is dead, so the app connects again and begins with `hello`.
 */

import { Command, FragmentError, LEAST_SIZE, MOST_SIZE, Reassembly, split } from './fragments.js';
import { TransportLost } from './link.js';
import { BoxBusy, NoBluetooth } from './transport.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./link.js').Sent} Sent
 *
 * The used part of Web Bluetooth, whose types TypeScript lacks:
 *
 * @typedef {Object} Bluetooth
 * @property {(options: {filters: Array<{services: string[], name?: string}>}) => Promise<Device>} requestDevice
 * @property {() => Promise<boolean>} [getAvailability] some replacements of Web Bluetooth lack it
 *
 * @typedef {EventTarget & {name?: string, gatt?: GattServer}} Device
 *
 * @typedef {Object} GattServer
 * @property {() => Promise<GattServer>} connect
 * @property {() => void} disconnect
 * @property {(uuid: string) => Promise<Service>} getPrimaryService
 *
 * @typedef {Object} Service
 * @property {(uuid: string) => Promise<Characteristic>} getCharacteristic
 *
 * @typedef {Object} OfCharacteristic
 * @property {DataView} [value] of the last notification
 * @property {() => Promise<DataView>} readValue
 * @property {(value: Bytes) => Promise<void>} writeValueWithResponse
 * @property {() => Promise<unknown>} startNotifications
 *
 * @typedef {EventTarget & OfCharacteristic} Characteristic
 *
 * @typedef {Object} GattLink
 * @property {Characteristic} toBox
 * @property {number} size the most bytes of a fragment
 * @property {Promise<unknown>} written the end of the last write; a reply may come before it
 */

/** @param {number} number of the service or the characteristic */
const uuid = (number) => `6e5a000${number}-ecb0-4fec-829a-1d65e43caf56`;
export const SERVICE = uuid(1);
export const TO_BOX = uuid(2);
export const FROM_BOX = uuid(3);
export const SIZE = uuid(4);
const CONNECT_MS = 10_000; // to connect, discover and subscribe
const SILENCE_MS = 5_000; // since the last fragment, in either direction
const EXCHANGE_MS = 20_000; // since the first fragment of a message
const BUSY_MS = 10_000; // during which a message is sent again to a busy box; two strangers delay it by about 9 s
const PAUSE_MS = [200, 500]; // before that, at random
const FORM = 1; // the first byte of `size`

/** Web Bluetooth as a `Transport`. */
export class WebBluetooth {
  #bluetooth;
  #locks;
  /** @type {WeakMap<Device, BluetoothBox>} one for each device, as its link is shared */
  #boxes = new WeakMap();

  /**
   * @param {Bluetooth | undefined} bluetooth undefined in a browser without it
   * @param {Pick<LockManager, 'request'> | null} locks of all pages of the app; null if there is one page only
   */
  constructor(
    bluetooth = /** @type {any} */ (globalThis.navigator)?.bluetooth,
    locks = globalThis.navigator?.locks ?? null,
  ) {
    this.#bluetooth = bluetooth;
    this.#locks = locks;
  }

  /**
   * Let the user choose a box with one of these names, or any box if there are none. The browser opens its chooser only
   * at once after a tap: `await` nothing between the tap and this call.
   * @param {string[]} names
   * @returns {Promise<BluetoothBox | null>} null if the user chose none
   * @throws {NoBluetooth}
   */
  async find(names) {
    if (this.#bluetooth === undefined) throw new NoBluetooth();
    const services = [SERVICE];
    const filters = names.length === 0 ? [{ services }] : names.map((name) => ({ services, name }));
    try {
      return this.#boxOf(await this.#bluetooth.requestDevice({ filters }));
    } catch (error) {
      if (/** @type {any} */ (error)?.name !== 'NotFoundError') throw error;
      if (await this.#isAvailable(this.#bluetooth)) return null;
      throw new NoBluetooth();
    }
  }

  /**
   * Whether there is an adapter: without one, the browser reports the same error as for a chooser without a choice.
   * @param {Bluetooth} bluetooth
   * @returns {Promise<boolean>}
   */
  async #isAvailable(bluetooth) {
    if (bluetooth.getAvailability === undefined) return true;
    /** @type {Wait<boolean>} */
    const wait = new Wait(SILENCE_MS);
    wait.follow(bluetooth.getAvailability());
    return wait.result.catch(() => false);
  }

  /** @param {Device} device */
  #boxOf(device) {
    const box = this.#boxes.get(device) ?? new BluetoothBox(device, this.#locks);
    this.#boxes.set(device, box);
    return box;
  }
}

/** A box that the user chose. Its calls are made one after the other. */
export class BluetoothBox {
  #device;
  #locks;
  /** @type {() => void} lets other pages connect to this box */
  #release = () => undefined;
  /** @type {Promise<unknown>} the end of the last lock */
  #released = Promise.resolve();
  #reassembly = new Reassembly(...Object.values(Command));
  /** @type {GattLink | null} */
  #link = null;
  /** @type {Promise<unknown>} the end of the call before */
  #turn = Promise.resolve();
  /** @type {Wait<any> | null} of the present call */
  #wait = null;
  /** @type {(fragment: Uint8Array) => void} takes a fragment, in vain if no reply is due */
  #take = () => undefined;

  /**
   * @param {Device} device
   * @param {Pick<LockManager, 'request'> | null} locks
   */
  constructor(device, locks) {
    this.#device = device;
    this.#locks = locks;
    device.addEventListener('gattserverdisconnected', () => this.#end());
  }

  /** The advertised name. */
  get name() {
    return this.#device.name ?? '';
  }

  get isConnected() {
    return this.#link !== null;
  }

  /**
   * Begin a link, if there is none.
   * @returns {Promise<void>}
   * @throws {TransportLost}
   * @throws {BoxBusy} if another page of the app is connected to the box
   */
  connect() {
    return this.#inTurn(async () => {
      if (this.#link !== null) return;
      if (this.#locks !== null) await this.#reserve(this.#locks);
      try {
        this.#link = await this.#waitFor(new Wait(CONNECT_MS), this.#establish());
      } catch (error) {
        throw this.#lose('none', error);
      }
    });
  }

  /**
   * Send a message, and receive its reply. A function of its own, so that it is an `Exchange`.
   * @type {import('./link.js').Exchange}
   * @throws {TransportLost} with the sent part of the message; the link has ended
   * @throws {BoxBusy} if the box is busy for 10 s since the first attempt; the link stays
   */
  exchange = (message) => this.#inTurn(async () => {
    let end = Infinity;
    for (;;) {
      const link = await this.#ready();
      end = Math.min(end, performance.now() + BUSY_MS);
      const reply = await this.#attempt(link, message);
      if (reply !== null) return reply;
      const pause = pauseMs();
      if (performance.now() + pause > end) throw new BoxBusy();
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  });

  /** End the link. The message in work is lost. */
  async close() {
    this.#end();
    this.#device.gatt?.disconnect();
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  /**
   * Keep other pages from connecting to this box until its link ends. Browsers share one connection among all pages,
   * and replies do not say to which page they belong.
   * @param {Pick<LockManager, 'request'>} locks
   */
  async #reserve(locks) {
    await this.#released;
    await new Promise((resolve, reject) => {
      const held = locks.request(`keyrack-box-${this.name}`, { ifAvailable: true }, (lock) => {
        if (lock === null) throw new BoxBusy();
        return new Promise((release) => {
          this.#release = () => release(undefined);
          resolve(undefined);
        });
      });
      this.#released = held.catch(reject);
    });
  }

  /** @returns {Promise<GattLink>} */
  async #establish() {
    const gatt = /** @type {GattServer} */ (this.#device.gatt);
    const service = await (await gatt.connect()).getPrimaryService(SERVICE);
    const toBox = await service.getCharacteristic(TO_BOX);
    const fromBox = await service.getCharacteristic(FROM_BOX);
    fromBox.addEventListener('characteristicvaluechanged', this.#hear);
    await fromBox.startNotifications();
    const size = await service.getCharacteristic(SIZE);
    return { toBox, size: sizeOf(await size.readValue()), written: Promise.resolve() };
  }

  /**
   * The link, after the end of its last write.
   * @returns {Promise<GattLink>}
   */
  async #ready() {
    try {
      const link = this.#link;
      if (link === null) throw new Error('There is no link.');
      await this.#waitFor(new Wait(SILENCE_MS), link.written);
      return link;
    } catch (error) {
      throw this.#lose('none', error);
    }
  }

  /**
   * Send a message once.
   * @param {GattLink} link
   * @param {Bytes} message
   * @returns {Promise<Bytes | null>} the reply; null if the box is busy
   */
  async #attempt(link, message) {
    /** @type {{sent: Sent}} */
    const progress = { sent: 'none' };
    try {
      /** @type {Wait<Bytes | null>} */
      const wait = new Wait(SILENCE_MS, EXCHANGE_MS);
      this.#reassembly.clear();
      this.#take = (fragment) => this.#receive(fragment, wait, progress);
      link.written = this.#send(link, message, wait, progress).catch(wait.reject);
      return await this.#waitFor(wait);
    } catch (error) {
      throw this.#lose(progress.sent, error);
    }
  }

  /**
   * Write the fragments with response, which is the only flow control of all platforms. A fragment counts as sent from
   * the beginning of its write, because the box may have it although no response came.
   * @param {GattLink} link
   * @param {Bytes} message
   * @param {Wait<Bytes | null>} wait after whose end nothing more is sent
   * @param {{sent: Sent}} progress
   */
  async #send({ toBox, size }, message, wait, progress) {
    const fragments = [...split(message, size)];
    for (const [place, fragment] of fragments.entries()) {
      if (wait.isOver) return;
      progress.sent = place === fragments.length - 1 ? 'all' : 'part';
      await toBox.writeValueWithResponse(fragment);
      wait.restart();
    }
  }

  /** @param {Event} event */
  #hear = ({ target }) => {
    const { buffer, byteOffset, byteLength } = /** @type {any} */ (target).value;
    const copy = buffer.slice(byteOffset, byteOffset + byteLength); // the next notification may change the value
    this.#take(new Uint8Array(copy));
  };

  /**
   * @param {Uint8Array} fragment
   * @param {Wait<Bytes | null>} wait
   * @param {{sent: Sent}} progress
   */
  #receive(fragment, wait, progress) {
    try {
      wait.restart();
      const whole = this.#reassembly.accept(fragment, performance.now());
      if (whole === null || whole.command === Command.KEEP_ALIVE) return;
      if (whole.command === Command.MESSAGE) wait.resolve(replyTo(progress, whole.data));
      else if (whole.data[0] === FragmentError.BUSY) wait.resolve(null);
      else throw new Error(`The box reports the error ${whole.data[0]}.`);
    } catch (error) {
      wait.reject(error);
    }
  }

  /**
   * The result of a wait, which the end of the link ends, too.
   * @template T
   * @param {Wait<T>} wait
   * @param {Promise<T>} [work] that ends it
   * @returns {Promise<T>}
   */
  async #waitFor(wait, work) {
    this.#wait = wait;
    if (work !== undefined) wait.follow(work);
    try {
      return await wait.result;
    } finally {
      this.#wait = null;
    }
  }

  /**
   * The error of a call that failed. The link ends, because a fault leaves it in an unknown state.
   * @param {Sent} sent
   * @param {unknown} cause
   */
  #lose(sent, cause) {
    this.close();
    return new TransportLost(sent, cause);
  }

  #end() {
    this.#link = null;
    this.#release();
    this.#wait?.reject(new Error('The link has ended.'));
  }
}

/**
 * A wait for the box or the system. It fails after a silence, and after a time in all.
 * @template T
 */
class Wait {
  isOver = false;
  #silenceMs;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #silence;
  #whole;
  /** @type {(value: T) => void} */
  #fulfil = () => undefined;
  /** @type {(error: unknown) => void} */
  #fail = () => undefined;
  /** @type {Promise<T>} */
  result = new Promise((resolve, reject) => {
    this.#fulfil = resolve;
    this.#fail = reject;
  });

  /**
   * @param {number} silenceMs
   * @param {number} [wholeMs]
   */
  constructor(silenceMs, wholeMs = silenceMs) {
    this.#silenceMs = silenceMs;
    this.#whole = setTimeout(this.#late, wholeMs);
    this.restart();
  }

  /** The silence begins now. */
  restart() {
    clearTimeout(this.#silence);
    if (!this.isOver) this.#silence = setTimeout(this.#late, this.#silenceMs);
  }

  /** @param {T} value */
  resolve = (value) => {
    this.#stop();
    this.#fulfil(value);
  };

  /** @param {unknown} error */
  reject = (error) => {
    this.#stop();
    this.#fail(error);
  };

  /**
   * End with the result of this work.
   * @param {Promise<T>} work
   */
  follow(work) {
    work.then(this.resolve, this.reject);
  }

  #late = () => this.reject(new Error('No answer came in time.'));

  #stop() {
    this.isOver = true;
    clearTimeout(this.#silence);
    clearTimeout(this.#whole);
  }
}

/**
 * The most bytes of a fragment, from the value of `size`.
 * @param {DataView} value
 */
function sizeOf(value) {
  const size = value.byteLength === 3 && value.getUint8(0) === FORM ? value.getUint16(1) : 0;
  if (size < LEAST_SIZE || size > MOST_SIZE) throw new Error('The box has an invalid size of fragments.');
  return size;
}

/**
 * The reply to a message that was sent whole.
 * @param {{sent: Sent}} progress
 * @param {Bytes} data
 */
function replyTo({ sent }, data) {
  if (sent !== 'all') throw new Error('A reply came before the end of the message.');
  return data;
}

function pauseMs() {
  const [least, most] = PAUSE_MS;
  return least + Math.random() * (most - least);
}
