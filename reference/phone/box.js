/**
 * A conversation with a box: brings what the box lacks, opens or closes it, and fetches its log.
 *
 * A box does not sign its challenge, so a fake box can send anything. Only the signed entries of its log are proof.
 */

import { equal, sha256 } from './bytes.js';
import { isSignedBy, readEntry } from './cose.js';
import { BoxRefusal, Refused } from './codes.js';
import { Link, TransportLost } from './link.js';
import { CLOSE, OPEN } from './messages.js';

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./link.js').Challenge} Challenge
 * @typedef {import('./link.js').Exchange} Exchange
 * @typedef {import('./link.js').VersionMismatch} VersionMismatch
 * @typedef {import('./store.js').Store} Store
 * @typedef {import('./store.js').HeldBox} HeldBox
 * @typedef {import('./store.js').HeldKey} HeldKey
 * @typedef {import('./messages.js').Claims} Claims
 * @typedef {import('./keys.js').DeviceKey} DeviceKey
 *
 * Asks the server for a signed time; needs a network.
 * @typedef {(box: string, nonce: Bytes) => Promise<Bytes>} AskTime
 */

const MOST_FETCHES = 300; // a box holds 1,024 entries, and gives 4 at a time
const CLOCK_TOLERANCE_MS = 300_000; // the tolerance of boxes
const MOST_KEYS = 3; // maximum of keys tried for one command, because each attempt costs a token of the box
/** Rejections of one key, after which another key for the same box may open. */
const OF_ONE_KEY = new Set(['refused', 'not-yet', 'expired', 'uncertain', 'list', 'index', 'revoked', 'stale', 'right']);

/** The phone has no key for this box. Like those of a `BoxRefusal`, `message` and `help` are for the user. */
export class NoKey extends Error {
  /** @param {string} box its name, or "" */
  constructor(box) {
    super(box === '' ? 'The box is not set up yet.' : 'There is no key for this box on this phone.');
    this.name = 'NoKey';
    this.box = box;
    this.action = 'online';
    this.help = 'Go where there is a network, let the app contact the server, then try again.';
  }
}

/** The user chose another box: a key for that one would open the wrong car. `message` and `help` are for the user. */
export class OtherBox extends Error {
  /** @param {string} box its name */
  constructor(box) {
    super('This is the box of another car.');
    this.name = 'OtherBox';
    this.box = box;
    this.action = 'again';
    this.help = 'Go to your car, then choose its box.';
  }
}

/**
 * The command was sent, but no readable answer came: the box may have opened, or not. The app must say so, and ask the
 * user to look; it must not say that the command failed. Opening again does no harm.
 */
export class OutcomeUnknown extends Error {
  /**
   * @param {string} box its name
   * @param {number} next the number of the box's next entry, before the command
   * @param {unknown} cause
   */
  constructor(box, next, cause) {
    super('It is unknown whether the box opened or closed.', { cause });
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
  #productId;
  /** @type {Challenge | null} the last one */
  #challenge = null;

  /**
   * @param {Exchange} exchange
   * @param {DeviceKey} device
   * @param {Store} store
   * @param {AskTime} [askTime] undefined without a network
   * @param {number} [productId] of the box that the user wants; undefined for any box
   */
  constructor(exchange, device, store, askTime, productId) {
    this.#link = new Link(exchange);
    this.#device = device;
    this.#store = store;
    this.#askTime = askTime;
    this.#productId = productId;
  }

  open() {
    return this.#command(OPEN);
  }

  close() {
    return this.#command(CLOSE);
  }

  /**
   * Whether a command with an unknown outcome had no effect. A box writes an entry whenever it opens or closes, so the
   * command had no effect if the box has written no entry since. `false` means that the outcome remains unknown. Fetch
   * the log first, because this method requests a challenge.
   * @param {OutcomeUnknown} unknown
   * @returns {Promise<boolean>}
   */
  async hasDoneNothing(unknown) {
    const { name, next } = await this.#hello();
    return name === unknown.box && next === unknown.next;
  }

  /**
   * Get a challenge, after bringing to the box what it lacks, in this order: keys of the authority, which verify the
   * rest; a time, so that the box accepts lists ahead of its clock; lists and the receipt. Each step may take longer
   * than the 10 seconds of a nonce, so each is followed by a new challenge.
   * @returns {Promise<Challenge>}
   */
  async greet() {
    let challenge = await this.#hello();
    const { name } = challenge;
    if (await this.#bring(await this.#store.authorityFor(challenge))) challenge = await this.#hello(name);
    if (await this.#setClock(challenge)) challenge = await this.#hello(name);
    if (await this.#bring(await this.#store.artefactsFor(challenge))) challenge = await this.#hello(name);
    return challenge;
  }

  /**
   * Fetch the entries that neither the phone nor, as far as it knows, the server has. The last command must have proven
   * a valid key, otherwise the box answers `refused`. A challenge ends that proof, so request none in between.
   * @throws {NoKey | BoxRefusal | Refused} `Refused` if the box sends an entry that it did not sign
   */
  async fetchLog() {
    const { name, first } = this.#challenge ?? (await this.#hello());
    const box = await this.#store.boxOf(name);
    if (box === null) throw new NoKey(name);
    let from = await this.#store.firstMissing(name, first);
    for (let left = MOST_FETCHES; left > 0; left -= 1) {
      const { next, entries } = await this.#link.fetch(from);
      if (entries.length === 0) return;
      const { hasRoom, following } = await this.#keep(box, entries, from);
      from = await this.#store.firstMissing(name, following);
      if (!hasRoom || from >= next) return;
    }
  }

  /**
   * @param {string} [name] of the box, which keeps it: a fake one could try out which boxes the phone knows
   * @returns {Promise<Challenge>}
   * @throws {OtherBox | Refused} `OtherBox` if the box is not the wanted one; its epoch may differ, and it may not be
   *   set up yet. `Refused` if it has another name now
   */
  async #hello(name) {
    const challenge = await this.#link.hello();
    const isWanted = this.#productId === undefined || challenge.name.startsWith(`box:${this.#productId}:`);
    if (!isWanted && challenge.name !== '') throw new OtherBox(challenge.name);
    if (name !== undefined && challenge.name !== name) throw new Refused('audience', 'another box answers now');
    this.#challenge = challenge;
    return challenge;
  }

  /**
   * Bring artefacts. A rejected artefact is not brought again in this conversation.
   * @param {Bytes[]} artefacts
   * @returns {Promise<boolean>} whether there was anything to bring
   */
  async #bring(artefacts) {
    for (const artefact of artefacts) await this.#link.carry(artefact);
    return artefacts.length > 0;
  }

  /**
   * Set the box's clock if it is uncertain or differs from the phone's: one of the two is wrong, and the server has the
   * right time. Without a network the clock is unchanged, and the rights of the key decide whether the box opens.
   * @param {Challenge} challenge
   */
  async #setClock({ name, nonce, time: seconds, isCertain }) {
    const isRight = isCertain && Math.abs(seconds * 1000 - this.#store.now()) <= CLOCK_TOLERANCE_MS;
    if (isRight || this.#askTime === undefined) return false;
    const time = await this.#askTime(name, nonce).catch(() => null);
    if (time === null) return false;
    await this.#link.carry(time); // ends the nonce, also if the box rejects the time
    return true;
  }

  /**
   * Open or close with the best key. A user with two assignments has two keys for the box. If the box rejects the best
   * one, the other one may open, because the phone may not know that an assignment has ended.
   * @param {number} command
   * @returns {Promise<{box: string, key: HeldKey, entry: Bytes}>} the box, the used key, and the proof
   * @throws {NoKey | OtherBox | VersionMismatch | BoxRefusal | TransportLost | OutcomeUnknown} the rejection of the
   *   best key
   */
  async #command(command) {
    let challenge = await this.greet();
    const { name } = challenge;
    const [keys, box] = [await this.#store.keysFor(name), await this.#store.boxOf(name)];
    if (keys.length === 0 || box === null) throw new NoKey(name);
    /** @type {BoxRefusal | null} */
    let refusal = null;
    for (const key of keys.slice(0, MOST_KEYS)) {
      if (refusal !== null) challenge = await this.#hello(name);
      try {
        return await this.#use(key, box, challenge, command);
      } catch (error) {
        if (!(error instanceof BoxRefusal && OF_ONE_KEY.has(error.code))) throw error;
        refusal ??= error;
      }
    }
    throw refusal;
  }

  /**
   * @param {HeldKey} key
   * @param {HeldBox} box
   * @param {Challenge} challenge
   * @param {number} command
   * @returns {Promise<{box: string, key: HeldKey, entry: Bytes}>}
   */
  async #use(key, box, challenge, command) {
    const { name, next } = challenge;
    const counter = await this.#store.nextCounter();
    const answer = await this.#answer(challenge, key, command, counter);
    const { code, entry } = await this.#link.open(key.message, answer).catch((error) => {
      throw isNothingSent(error) ? error : new OutcomeUnknown(name, next, error);
    });
    if (code !== 0) {
      if (entry.length > 0) await this.#keep(box, [entry], 1).catch(ignoreRefused);
      throw new BoxRefusal(code);
    }
    const proof = await this.#keepProof(box, entry, command, counter).catch((error) => {
      throw error instanceof Refused ? new OutcomeUnknown(name, next, error) : error;
    });
    return { box: name, key, entry: proof };
  }

  /**
   * @param {Challenge} challenge
   * @param {HeldKey} key
   * @param {number} command
   * @param {number} counter
   */
  async #answer({ name, nonce, message }, key, command, counter) {
    return this.#device.sign('answer', {
      aud: name,
      nonce,
      command,
      counter,
      key: await sha256(key.message),
      challenge: await sha256(message),
    });
  }

  /**
   * Keep the entry of a command that the box carried out. An older entry is no proof of it.
   * @param {HeldBox} box
   * @param {Bytes} bytes
   * @param {number} command
   * @param {number} counter of the answer
   * @returns {Promise<Bytes>} the stored form of the entry
   */
  async #keepProof(box, bytes, command, counter) {
    const { claims, message } = await verified(box, bytes);
    const { number, event, device, counter: entryCounter } = claims;
    const isOurs = event === command && entryCounter === counter && equal(device, this.#device.thumbprint);
    if (!isOurs) throw new Refused('claims', 'the entry of another command');
    await this.#store.keepEntries(box.name, [{ box: box.name, number, message }]);
    return message;
  }

  /**
   * Keep entries of a box: all of them, or none if it did not sign one of them.
   * @param {HeldBox} box
   * @param {Bytes[]} messages in the order of their numbers
   * @param {number} least the minimum of the first number
   * @returns {Promise<{following: number, hasRoom: boolean}>} the number after the last one, and whether the store has
   *   room for more
   */
  async #keep(box, messages, least) {
    let following = least;
    const entries = [];
    for (const bytes of messages) {
      const { claims: { number }, message } = await verified(box, bytes);
      if (number < following) throw new Refused('structure', 'entries in the wrong order');
      following = number + 1;
      entries.push({ box: box.name, number, message });
    }
    return { following, hasRoom: await this.#store.keepEntries(box.name, entries) };
  }
}

/**
 * The claims of an entry, and its bytes with a low s. A phone delivers no entry that the box did not sign, because the
 * server would report a forgery.
 * @param {HeldBox} box
 * @param {Bytes} bytes
 * @returns {Promise<{claims: Claims, message: Bytes}>}
 * @throws {Refused}
 */
async function verified(box, bytes) {
  const { entry, message } = readEntry(bytes);
  if (entry.claims.first > entry.claims.number) throw new Refused('claims', 'an entry that the box no longer has');
  if (entry.claims.aud !== box.name) throw new Refused('audience', 'an entry of another box');
  if (box.publicKey !== null && !(await isSignedBy(entry, box.publicKey))) {
    throw new Refused('signature', 'an entry that the box did not sign');
  }
  return { claims: entry.claims, message };
}

/**
 * Ignore an invalid entry that came with a rejection; throw other errors.
 * @param {unknown} error
 */
function ignoreRefused(error) {
  if (!(error instanceof Refused)) throw error;
}

/**
 * Whether a command did not reach the box, so that it had no effect.
 * @param {unknown} error
 */
function isNothingSent(error) {
  return error instanceof TransportLost && error.sent !== 'all';
}
