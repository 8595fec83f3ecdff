/**
 * Fragments of a message on a Bluetooth link (docs/key-bluetooth.md, "Fragments").
 *
 * Their form is that of FIDO's CTAP over Bluetooth: an initial fragment with command and length, then numbered ones.
 */

import { LONGEST } from './link.js';

/** @typedef {import('./cose.js').Bytes} Bytes */

export const LEAST_SIZE = 20; // bytes of a fragment at the smallest ATT_MTU, 23
export const MOST_SIZE = 512; // the longest value of an attribute
export const GAP_MS = 1_000; // the longest time between two fragments
export const WHOLE_MS = 10_000; // the longest time from the first fragment to the last
const HEAD = 3; // bytes before the data of an initial fragment
const SEQUENCES = 128;
const INITIAL = 0x80; // the bit of a command

export const Command = Object.freeze({ KEEP_ALIVE: 0x82, MESSAGE: 0x83, ERROR: 0xbf });

/** Why a receiver rejects a fragment. */
export const FragmentError = Object.freeze({
  COMMAND: 1, LENGTH: 3, SEQUENCE: 4, TIMEOUT: 5, BUSY: 6, OTHER: 0x7f,
});

/** The longest data of each command. @type {Record<number, number>} */
const LENGTHS = { [Command.MESSAGE]: LONGEST, [Command.KEEP_ALIVE]: 1, [Command.ERROR]: 1 };

/** A receiver rejected a fragment. It keeps nothing of the message. */
export class FragmentRejected extends Error {
  /** @param {number} code one of `FragmentError` */
  constructor(code) {
    super(`Fragment rejected: error ${code}.`);
    this.name = 'FragmentRejected';
    this.code = code;
  }
}

/**
 * The fragments of a message.
 * @param {Uint8Array} message of 1 to 2,048 bytes
 * @param {number} size the most bytes of a fragment, at least 20
 * @returns {Generator<Bytes>}
 */
export function* split(message, size) {
  const first = size - HEAD;
  yield Uint8Array.of(Command.MESSAGE, message.length >> 8, message.length & 0xff, ...message.subarray(0, first));
  let number = 0;
  for (let at = first; at < message.length; at += size - 1) {
    yield Uint8Array.of(number % SEQUENCES, ...message.subarray(at, at + size - 1));
    number += 1;
  }
}

/** The messages of the other side of a link, from their fragments. Times are in milliseconds. */
export class Reassembly {
  /** @type {number | null} of the message that has begun */
  #command = null;
  #data = new Uint8Array();
  #filled = 0;
  #sequence = 0;
  #began = 0;
  #last = 0;
  #commands;

  /** @param {...number} commands that the other side may send */
  constructor(...commands) {
    this.#commands = commands;
  }

  /** Drop the fragments of a message that is not whole yet. */
  clear() {
    this.#command = null;
    this.#data = new Uint8Array();
    this.#filled = 0;
    this.#sequence = 0;
  }

  /**
   * @param {Uint8Array} fragment
   * @param {number} now
   * @returns {{command: number, data: Bytes} | null} the whole message with its last fragment, else null
   * @throws {FragmentRejected}
   */
  accept(fragment, now) {
    try {
      return this.#accept(fragment, now);
    } catch (error) {
      this.clear();
      throw error;
    }
  }

  /**
   * @param {Uint8Array} fragment
   * @param {number} now
   */
  #accept(fragment, now) {
    if (this.#isLate(now)) throw new FragmentRejected(FragmentError.TIMEOUT);
    if (fragment.length === 0) throw new FragmentRejected(FragmentError.LENGTH);
    this.#append(fragment[0] & INITIAL ? this.#initial(fragment, now) : this.#continuation(fragment), now);
    if (this.#command === null || this.#filled < this.#data.length) return null;
    const whole = { command: this.#command, data: this.#data };
    this.clear();
    return whole;
  }

  /** @param {number} now */
  #isLate(now) {
    return this.#command !== null && (now - this.#last > GAP_MS || now - this.#began > WHOLE_MS);
  }

  /**
   * The data of an initial fragment.
   * @param {Uint8Array} fragment
   * @param {number} now
   */
  #initial(fragment, now) {
    if (this.#command !== null) throw new FragmentRejected(FragmentError.SEQUENCE);
    const [command, high, low] = fragment;
    if (!this.#commands.includes(command)) throw new FragmentRejected(FragmentError.COMMAND);
    const length = (high << 8) | low;
    if (fragment.length < HEAD || length < 1 || length > LENGTHS[command]) {
      throw new FragmentRejected(FragmentError.LENGTH);
    }
    this.#command = command;
    this.#data = new Uint8Array(length);
    this.#began = now;
    return fragment.subarray(HEAD);
  }

  /**
   * The data of a continuation.
   * @param {Uint8Array} fragment
   */
  #continuation(fragment) {
    if (this.#command === null || fragment[0] !== this.#sequence) throw new FragmentRejected(FragmentError.SEQUENCE);
    if (fragment.length === 1) throw new FragmentRejected(FragmentError.LENGTH);
    this.#sequence = (this.#sequence + 1) % SEQUENCES;
    return fragment.subarray(1);
  }

  /**
   * @param {Uint8Array} data
   * @param {number} now
   */
  #append(data, now) {
    if (this.#filled + data.length > this.#data.length) throw new FragmentRejected(FragmentError.LENGTH);
    this.#data.set(data, this.#filled);
    this.#filled += data.length;
    this.#last = now;
  }
}
