/**
 * In charge of a conversation with a box: what it does not have yet is brought, then it opens or closes, and its log is
 * fetched.
 */

import { sha256 } from './bytes.js';
import { read } from './cose.js';
import { BoxRefusal, Refused } from './codes.js';
import { Link, TransportLost } from './link.js';
import { CLOSE, OPEN } from './messages.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./link.js').Challenge} Challenge
 * @typedef {import('./link.js').Exchange} Exchange
 * @typedef {import('./store.js').Store} Store
 * @typedef {import('./store.js').HeldKey} HeldKey
 * @typedef {import('./keys.js').DeviceKey} DeviceKey
 *
 * Asks the server for a signed time, where there is a network.
 * @typedef {(box: string, nonce: Bytes) => Promise<Bytes>} AskTime
 */

const MOST_FETCHES = 300; // a box holds 1,024 entries, and gives 4 at a time

/** The phone has no key for this box. `message` and `help` are for the user, as those of a `BoxRefusal`. */
export class NoKey extends Error {
  /** @param {string} box its name, or "" */
  constructor(box) {
    super(box === '' ? 'The box is not set up yet.' : 'There is no key for this box on this phone.');
    this.name = 'NoKey';
    this.box = box;
    this.action = 'online';
    this.help = 'Go where there is a network, let the app meet the server, then try again.';
  }
}

/**
 * The command was sent, and no answer came that can be read: the box may have opened, or not. An app says so, and asks the
 * user to look. It never says that it failed. To open once more does no harm.
 */
export class OutcomeUnknown extends Error {
  /**
   * @param {string} box its name
   * @param {number} next the number that its next entry had before the command
   * @param {unknown} cause
   */
  constructor(box, next, cause) {
    super('It is not known whether the box has done it.', { cause });
    this.name = 'OutcomeUnknown';
    this.box = box;
    this.next = next;
    this.action = 'look';
    this.help = 'Look at the box. If nothing has happened, try again.';
  }
}

export class Conversation {
  #link;
  #device;
  #store;
  #askTime;

  /**
   * @param {Exchange} exchange
   * @param {DeviceKey} device
   * @param {Store} store
   * @param {AskTime} [askTime] only where there is a network
   */
  constructor(exchange, device, store, askTime) {
    this.#link = new Link(exchange);
    this.#device = device;
    this.#store = store;
    this.#askTime = askTime;
  }

  open() {
    return this.#command(OPEN);
  }

  close() {
    return this.#command(CLOSE);
  }

  /**
   * Whether a command with an unknown outcome has done nothing. A box writes an entry whenever it opens or closes, so where
   * no entry was written since then, it has not. `false` says that the outcome stays unknown.
   * @param {OutcomeUnknown} unknown
   * @returns {Promise<boolean>}
   */
  async hasDoneNothing(unknown) {
    const { name, next } = await this.#link.hello();
    return name === unknown.box && next === unknown.next;
  }

  /**
   * Get a challenge, after the box was brought whatever it does not have. What was brought may have taken long, and a
   * nonce lives 10 seconds: so there is a new challenge then.
   * @returns {Promise<Challenge>}
   */
  async greet() {
    let challenge = await this.#link.hello();
    if (await this.#bring(challenge)) challenge = await this.#link.hello();
    if (await this.#setClock(challenge)) challenge = await this.#link.hello();
    return challenge;
  }

  /**
   * Fetch the entries that neither the phone nor, as far as it knows, the server has. For this, an answer on this link
   * must have proven a good key; the box says `refused` else.
   */
  async fetchLog() {
    const { name, first } = await this.#link.hello();
    let from = await this.#store.firstMissing(name, first);
    for (let left = MOST_FETCHES; left > 0; left -= 1) {
      const { next, entries } = await this.#link.fetch(from);
      if (entries.length === 0) return;
      from = await this.#keep(entries, from);
      if (from >= next) return;
    }
  }

  /**
   * What the box refuses is not brought again in this conversation; it goes by what it has.
   * @param {Challenge} challenge
   * @returns {Promise<boolean>} whether there was anything to bring
   */
  async #bring(challenge) {
    const artefacts = await this.#store.artefactsFor(challenge);
    for (const artefact of artefacts) await this.#link.carry(artefact);
    return artefacts.length > 0;
  }

  /**
   * Make a clock certain that is not. Without a network it stays as it is, and the key says whether it opens so.
   * @param {Challenge} challenge
   */
  async #setClock({ name, nonce, isCertain }) {
    if (isCertain || this.#askTime === undefined) return false;
    const time = await this.#askTime(name, nonce).catch(() => null);
    if (time === null) return false;
    await this.#link.carry(time); // the nonce is dead now, whether it was taken or not
    return true;
  }

  /**
   * @param {number} command
   * @returns {Promise<{box: string, key: HeldKey, entry: Bytes}>} what was opened or closed, by what, and the proof
   * @throws {NoKey | BoxRefusal | TransportLost | OutcomeUnknown}
   */
  async #command(command) {
    const challenge = await this.greet();
    const box = challenge.name;
    const key = await this.#store.keyFor(box);
    if (key === null) throw new NoKey(box);
    const answer = await this.#answer(challenge, key, command);
    const { code, entry } = await this.#link.open(key.message, answer).catch((error) => {
      throw isNothingSent(error) ? error : new OutcomeUnknown(box, challenge.next, error);
    });
    if (entry.length > 0) await this.#keep([entry], 1);
    if (code !== 0) throw new BoxRefusal(code);
    return { box, key, entry };
  }

  /**
   * @param {Challenge} challenge
   * @param {HeldKey} key
   * @param {number} command
   */
  async #answer({ name, nonce, message }, key, command) {
    return this.#device.sign('answer', {
      aud: name,
      nonce,
      command,
      counter: await this.#store.nextCounter(),
      key: await sha256(key.message),
      challenge: await sha256(message),
    });
  }

  /**
   * @param {Bytes[]} messages entries in their order
   * @param {number} least that the first number may be
   * @returns {Promise<number>} the number behind the last one
   */
  async #keep(messages, least) {
    let next = least;
    const entries = messages.map((message) => {
      const { aud, number } = read(message, 'entry').claims;
      if (number < next) throw new Refused('structure', 'entries that are not in their order');
      next = number + 1;
      return { box: aud, number, message };
    });
    await this.#store.keepEntries(entries);
    return next;
  }
}

/**
 * Whether a command did not reach the box, so that it has done nothing.
 * @param {unknown} error
 */
function isNothingSent(error) {
  return error instanceof TransportLost && error.sent !== 'all';
}
