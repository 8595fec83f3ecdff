/**
 * In charge of a conversation with a box: what it does not have yet is brought, then it opens or closes, and its log is
 * fetched.
 */

import { sha256 } from './bytes.js';
import { read } from './cose.js';
import { BoxRefusal, Refused } from './codes.js';
import { Link } from './link.js';
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
    let from = this.#store.firstMissing(name, first);
    for (let left = MOST_FETCHES; left > 0; left -= 1) {
      const { next, entries } = await this.#link.fetch(from);
      if (entries.length === 0) return;
      for (const entry of entries) from = await this.#keep(entry, from);
      if (from >= next) return;
    }
  }

  /**
   * What the box refuses is not brought again in this conversation; it goes by what it has.
   * @param {Challenge} challenge
   * @returns {Promise<boolean>} whether there was anything to bring
   */
  async #bring(challenge) {
    const artefacts = this.#store.artefactsFor(challenge);
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
   * @throws {NoKey | BoxRefusal}
   */
  async #command(command) {
    const challenge = await this.greet();
    const box = challenge.name;
    const key = this.#store.keyFor(box);
    if (key === null) throw new NoKey(box);
    const answer = await this.#answer(challenge, key, command);
    const { code, entry } = await this.#link.open(key.message, answer);
    if (entry.length > 0) await this.#keep(entry, 1);
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
   * @param {Bytes} message an entry
   * @param {number} least that its number may be
   * @returns {Promise<number>} the number behind it
   */
  async #keep(message, least) {
    const { aud, number } = read(message, 'entry').claims;
    if (number < least) throw new Refused('structure', 'entries that are not in their order');
    await this.#store.keepEntry({ box: aud, number, message });
    return number + 1;
  }
}
