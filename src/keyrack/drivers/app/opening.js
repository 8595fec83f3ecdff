/**
 * One opening or closing: find the box, connect, send the command, fetch its log.
 */

import { BoxRefusal, Refused } from './phone/codes.js';
import { namesAround, NEAR, WIDE } from './phone/advertisements.js';
import { WebBluetooth } from './phone/bluetooth.js';
import { NoKey, OtherBox, OutcomeUnknown } from './phone/box.js';
import { TransportLost, VersionMismatch } from './phone/link.js';
import { BoxBusy, NoBluetooth } from './phone/transport.js';

/**
 * @typedef {import('./phone/phone.js').Phone} Phone
 * @typedef {import('./phone/transport.js').Transport} Transport
 * @typedef {import('./phone/transport.js').NearbyBox} NearbyBox
 *
 * @typedef {'open' | 'close'} Command
 * @typedef {'searching' | 'connecting' | 'opening' | 'closing' | 'log'} Phase
 *
 * @typedef {Object} Outcome
 * @property {'opened' | 'closed' | 'interrupted' | 'unknown' | 'not-found' | 'no-bluetooth' | 'refused' | 'other-box'
 *   | 'no-key' | 'busy' | 'app-old' | 'box-old' | 'no-effect' | 'error'} kind
 * @property {Command} command
 * @property {number} at in milliseconds since 1970
 * @property {string} [code] of a rejection by the box
 * @property {number} [number] of that code
 * @property {string} [detail] for support
 */

const LINK_MS = 30_000; // a link stays after a command, so that the next one needs no chooser
const SAME_NAME_MS = 600_000; // a box changes its address every 15 minutes; later the chooser must come again

/** How far the names of a search reach: the next slots, then two hours, then any box. */
export const REACHES = 3;

/**
 * The transport of the server's settings.
 * @param {'bluetooth' | 'simulated'} radio
 * @returns {Promise<Transport>}
 */
export async function transportOf(radio) {
  if (radio !== 'simulated') return new WebBluetooth();
  const { SimulatedRadio } = await import('./simulated-radio.js');
  return new SimulatedRadio();
}

/** Whether this browser can open at all. iPhones and Firefox have no Web Bluetooth. */
export function hasRadio() {
  return 'bluetooth' in navigator;
}

/**
 * The names that the box of a car advertises around now. Compute them before the tap: the browser opens its chooser
 * only at once after it.
 * @param {Phone} phone
 * @param {number} productId
 * @param {number} clockOffset of the server, in milliseconds
 * @returns {Promise<string[][]>} by reach
 */
export async function namesOf(phone, productId, clockOffset) {
  const { boxes } = await phone.store.state();
  const own = boxes.filter(({ name }) => name.startsWith(`box:${productId}:`));
  const seconds = (Date.now() + clockOffset) / 1000;
  /** @param {number} reach */
  const around = async (reach) => {
    const names = await Promise.all(own.map((box) => namesAround(box.names ?? [], seconds, reach)));
    return names.flat();
  };
  return [await around(NEAR), await around(WIDE), []];
}

/** The boxes that the user has chosen, and the commands to them. */
export class Opener {
  #transport;
  /** @type {Map<number, {box: NearbyBox, chosenAt: number}>} by product */
  #nearby = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #end;

  /** @param {Transport} transport */
  constructor(transport) {
    this.#transport = transport;
  }

  /**
   * Carry out a command. Call it at once after a tap, without an `await` before.
   * @param {Command} command
   * @param {Object} what
   * @param {number} what.productId of the car's box
   * @param {string[]} what.names that the box may advertise; none for any box
   * @param {Phone} what.phone
   * @param {(phase: Phase) => void} what.show
   * @returns {Promise<Outcome>}
   */
  async act(command, { productId, names, phone, show }) {
    clearTimeout(this.#end);
    try {
      const box = this.#known(productId) ?? (await this.#choose(productId, names, show));
      if (box === null) return outcome(command, 'not-found');
      show('connecting');
      await box.connect();
      const conversation = phone.at(box.exchange, productId);
      show(command === 'open' ? 'opening' : 'closing');
      await (command === 'open' ? conversation.open() : conversation.close());
      show('log');
      await conversation.fetchLog().catch(() => undefined); // a later visit fetches it
      this.#end = setTimeout(() => box.close(), LINK_MS);
      return outcome(command, command === 'open' ? 'opened' : 'closed');
    } catch (error) {
      if (isElsewhere(error)) this.#nearby.delete(productId); // otherwise another try needs no chooser
      return failure(command, error);
    }
  }

  /**
   * @param {number} productId
   * @returns {NearbyBox | null}
   */
  #known(productId) {
    const known = this.#nearby.get(productId);
    return known !== undefined && Date.now() - known.chosenAt < SAME_NAME_MS ? known.box : null;
  }

  /**
   * @param {number} productId
   * @param {string[]} names
   * @param {(phase: Phase) => void} show
   */
  async #choose(productId, names, show) {
    const search = this.#transport.find(names); // first, as the browser demands
    show('searching');
    const box = await search;
    if (box !== null) this.#nearby.set(productId, { box, chosenAt: Date.now() });
    return box;
  }
}

/**
 * @param {Command} command
 * @param {Outcome['kind']} kind
 * @param {Partial<Outcome>} [details]
 * @returns {Outcome}
 */
export function outcome(command, kind, details = {}) {
  return { kind, command, at: Date.now(), ...details };
}

/**
 * Whether the chosen box is not the wanted one, or was not reached.
 * @param {unknown} error
 */
function isElsewhere(error) {
  return error instanceof OtherBox || (error instanceof TransportLost && error.sent === 'none');
}

/**
 * The outcome of an error. A command without an answer is `unknown`: the box may have opened.
 * @param {Command} command
 * @param {any} error
 * @returns {Outcome}
 */
function failure(command, error) {
  if (error instanceof OutcomeUnknown) return outcome(command, 'unknown');
  if (error instanceof BoxBusy) return outcome(command, 'busy');
  if (error instanceof TransportLost) return outcome(command, 'interrupted', { detail: error.sent });
  if (error instanceof NoBluetooth) return outcome(command, 'no-bluetooth');
  if (error?.name === 'SecurityError') return outcome(command, 'no-bluetooth'); // a policy or a setting refuses it
  if (error instanceof OtherBox) return outcome(command, 'other-box', { detail: error.box });
  if (error instanceof NoKey) return outcome(command, 'no-key');
  if (error instanceof VersionMismatch) return outcome(command, error.action === 'update' ? 'app-old' : 'box-old');
  if (error instanceof BoxRefusal) return outcome(command, 'refused', { code: error.code, number: error.number });
  if (error instanceof Refused) return outcome(command, 'error', { code: error.code, detail: error.message });
  return outcome(command, 'error', { detail: `${error?.name}: ${error?.message}` });
}
