/**
 * In charge of a conversation with a box: what it does not have yet is brought, then it opens or closes, and its log is
 * fetched. A box does not sign its challenge, so a fake one can say anything. Only entries of its log prove something.
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
 * Asks the server for a signed time, where there is a network.
 * @typedef {(box: string, nonce: Bytes) => Promise<Bytes>} AskTime
 */

const MOST_FETCHES = 300; // a box holds 1,024 entries, and gives 4 at a time
const CLOCK_TOLERANCE_MS = 300_000; // as boxes have it
const MOST_KEYS = 3; // that are tried for one command: each costs the box a token
/** Refusals of a key, where another key for the same box may open. */
const OF_ONE_KEY = new Set(['refused', 'not-yet', 'expired', 'uncertain', 'list', 'index', 'revoked', 'stale', 'right']);

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
  /** @type {Challenge | null} the last one */
  #challenge = null;

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
   * no entry was written since then, it has not. `false` says that the outcome stays unknown. Fetch the log before: this
   * asks for a challenge.
   * @param {OutcomeUnknown} unknown
   * @returns {Promise<boolean>}
   */
  async hasDoneNothing(unknown) {
    const { name, next } = await this.#hello();
    return name === unknown.box && next === unknown.next;
  }

  /**
   * Get a challenge, after the box was brought whatever it does not have: keys of the authority, with which it verifies
   * the rest, a time, which lets it take lists that are ahead of its clock, then lists and the receipt. What was brought
   * may have taken long, and a nonce lives 10 seconds: so there is a new challenge after each step.
   * @returns {Promise<Challenge>}
   */
  async greet() {
    let challenge = await this.#hello();
    if (await this.#bring(await this.#store.authorityFor(challenge))) challenge = await this.#hello();
    if (await this.#setClock(challenge)) challenge = await this.#hello();
    if (await this.#bring(await this.#store.artefactsFor(challenge))) challenge = await this.#hello();
    return challenge;
  }

  /**
   * Fetch the entries that neither the phone nor, as far as it knows, the server has. For this, the last command must
   * have proven a good key; the box says `refused` else. A challenge ends that, so there is none in between.
   * @throws {NoKey | BoxRefusal | Refused} `Refused` if the box gives what it has not signed
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

  async #hello() {
    this.#challenge = await this.#link.hello();
    return this.#challenge;
  }

  /**
   * What the box refuses is not brought again in this conversation; it goes by what it has.
   * @param {Bytes[]} artefacts
   * @returns {Promise<boolean>} whether there was anything to bring
   */
  async #bring(artefacts) {
    for (const artefact of artefacts) await this.#link.carry(artefact);
    return artefacts.length > 0;
  }

  /**
   * Set a clock that is uncertain, or that differs from the phone's: one of both is wrong, and the server knows which.
   * Without a network it stays as it is, and the key says whether it opens so.
   * @param {Challenge} challenge
   */
  async #setClock({ name, nonce, time: seconds, isCertain }) {
    const isRight = isCertain && Math.abs(seconds * 1000 - this.#store.now()) <= CLOCK_TOLERANCE_MS;
    if (isRight || this.#askTime === undefined) return false;
    const time = await this.#askTime(name, nonce).catch(() => null);
    if (time === null) return false;
    await this.#link.carry(time); // the nonce is dead now, whether it was taken or not
    return true;
  }

  /**
   * A user with two assignments has two keys for the box. Where the best one is refused, the other one may open: the
   * phone may not know that an assignment has ended.
   * @param {number} command
   * @returns {Promise<{box: string, key: HeldKey, entry: Bytes}>} what was opened or closed, by what, and the proof
   * @throws {NoKey | VersionMismatch | BoxRefusal | TransportLost | OutcomeUnknown} the refusal of the best key
   */
  async #command(command) {
    let challenge = await this.greet();
    const { name } = challenge;
    const [keys, box] = [await this.#store.keysFor(name), await this.#store.boxOf(name)];
    if (keys.length === 0 || box === null) throw new NoKey(name);
    /** @type {BoxRefusal | null} */
    let refusal = null;
    for (const key of keys.slice(0, MOST_KEYS)) {
      if (refusal !== null) challenge = await this.#hello();
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
   * Keep the entry of a command that the box has done. An older entry, or none, is no proof of it.
   * @param {HeldBox} box
   * @param {Bytes} bytes
   * @param {number} command
   * @param {number} counter of the answer
   * @returns {Promise<Bytes>} the entry as it is kept
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
   * Keep entries of a box. If it has not signed one of them, none is kept.
   * @param {HeldBox} box
   * @param {Bytes[]} messages in the order of their numbers
   * @param {number} least that the first number may be
   * @returns {Promise<{following: number, hasRoom: boolean}>} the number behind the last one, and whether the store has
   *   room for more
   */
  async #keep(box, messages, least) {
    let following = least;
    const entries = [];
    for (const bytes of messages) {
      const { claims: { number }, message } = await verified(box, bytes);
      if (number < following) throw new Refused('structure', 'entries that are not in their order');
      following = number + 1;
      entries.push({ box: box.name, number, message });
    }
    return { following, hasRoom: await this.#store.keepEntries(box.name, entries) };
  }
}

/**
 * The claims of an entry, and its bytes with a low s. An honest phone brings home no entry that the box has not signed:
 * the server would report a forgery.
 * @param {HeldBox} box
 * @param {Bytes} bytes
 * @returns {Promise<{claims: Claims, message: Bytes}>}
 * @throws {Refused}
 */
async function verified(box, bytes) {
  const { entry, message } = readEntry(bytes);
  if (entry.claims.first > entry.claims.number) throw new Refused('claims', 'an entry that the box does not hold');
  if (entry.claims.aud !== box.name) throw new Refused('audience', 'the entry of another box');
  if (box.publicKey !== null && !(await isSignedBy(entry, box.publicKey))) {
    throw new Refused('signature', 'an entry that the box has not signed');
  }
  return { claims: entry.claims, message };
}

/**
 * A refusal stays one, whatever entry came with it.
 * @param {unknown} error
 */
function ignoreRefused(error) {
  if (!(error instanceof Refused)) throw error;
}

/**
 * Whether a command did not reach the box, so that it has done nothing.
 * @param {unknown} error
 */
function isNothingSent(error) {
  return error instanceof TransportLost && error.sent !== 'all';
}
