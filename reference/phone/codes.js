/**
 * The codes of docs/key-protocol.md ("Codes"): their numbers, texts for the user, and remedies.
 */

/** The codes by their numbers; number 0 means success. */
export const CODES = Object.freeze([
  '', 'refused', 'too-long', 'encoding', 'structure', 'header', 'algorithm', 'typ', 'claims', 'issuing-key', 'issuer',
  'audience', 'future', 'not-yet', 'expired', 'uncertain', 'list', 'index', 'revoked', 'stale', 'right', 'nonce',
  'other-key', 'challenge', 'counter', 'key-signature', 'answer-signature', 'busy', 'older', 'inflate', 'receipt',
  'signature', 'not-now', 'box', 'unknown', 'generation', 'other-part',
]);

/** Remedies: try `again` at once, `wait` a little, go `online`, or `ask` the person who gave the key. */
const AGAIN = 'again';
const WAIT = 'wait';
const ONLINE = 'online';
const ASK = 'ask';

/** @type {Record<string, [string, string]>} the text and the remedy, by the code that a box sends to a phone */
const SAID = {
  refused: ['The box does not accept this key.', ONLINE],
  'issuing-key': ['The box does not know the signer of this key.', ONLINE],
  issuer: ['The box belongs to another customer.', ASK],
  audience: ['The key is for another box, or this box was set up again.', ONLINE],
  future: ['The clock of the box is far behind.', ONLINE],
  'not-yet': ['The key is not valid yet.', WAIT],
  expired: ['The key has expired.', ONLINE],
  uncertain: ['The box does not know the time.', ONLINE],
  list: ['The box does not have the list of this key.', ONLINE],
  index: ['The key has no place in its list.', ONLINE],
  revoked: ['The key was revoked.', ASK],
  stale: ['The box has had no news from the server for too long.', ONLINE],
  right: ['The key does not allow this.', ASK],
  counter: ['The box has already received a later command of this phone. Another device may use its key.', AGAIN],
  busy: ['The box is busy.', WAIT],
  unknown: ['The box is too old for this request.', ASK],
  generation: ['The box has another list instead of this one.', ONLINE],
  'other-part': ['The messages that set up the box do not belong together.', ONLINE],
};

/** @type {Record<string, string>} */
const HELP = {
  [AGAIN]: 'Try again.',
  [WAIT]: 'Wait, then try again.',
  [ONLINE]: 'Go where there is a network, let the app contact the server, then try again.',
  [ASK]: 'Ask the person who gave you the key.',
};

/** This phone rejected a message that it read; `code` is the reason. */
export class Refused extends Error {
  /**
   * @param {string} code one of `CODES`
   * @param {string} why the details, for developers
   */
  constructor(code, why) {
    super(`${code}: ${why}`);
    this.name = 'Refused';
    this.code = code;
  }
}

/** A box rejected a command. `message` and `help` are for the user. */
export class BoxRefusal extends Error {
  /** @param {number} number of the code, as sent by the box */
  constructor(number) {
    const code = CODES[number] ?? 'refused';
    const [text, action] = SAID[code] ?? ['The box sent an answer that the app does not know.', ONLINE];
    super(text);
    this.name = 'BoxRefusal';
    this.number = number;
    this.code = code;
    /** `again`, `wait`, `online` or `ask`, for an app with its own texts */
    this.action = action;
    this.help = HELP[action];
  }
}
