/**
 * In charge of the codes of docs/key-protocol.md ("Codes"): their numbers, what they say, and what helps the user.
 */

/** The codes by their numbers; number 0 is that all is good. */
export const CODES = Object.freeze([
  '', 'refused', 'too-long', 'encoding', 'structure', 'header', 'algorithm', 'typ', 'claims', 'issuing-key', 'issuer',
  'audience', 'future', 'not-yet', 'expired', 'uncertain', 'list', 'index', 'revoked', 'stale', 'right', 'nonce',
  'other-key', 'challenge', 'counter', 'key-signature', 'answer-signature', 'busy', 'older', 'inflate', 'receipt',
  'signature', 'not-now', 'box', 'unknown', 'generation', 'other-part',
]);

/** What helps: `again` at once, `wait` a little, come `online`, or `ask` whoever gave the key. */
const AGAIN = 'again';
const WAIT = 'wait';
const ONLINE = 'online';
const ASK = 'ask';

/** @type {Record<string, [string, string]>} what a box says to a phone: the text, and what helps */
const SAID = {
  refused: ['The box does not take this key.', ONLINE],
  'issuing-key': ['The box does not know who signed this key.', ONLINE],
  issuer: ['The box belongs to somebody else.', ASK],
  audience: ['The key is for another box, or the box was set up anew.', ONLINE],
  future: ['The clock of the box is far behind.', ONLINE],
  'not-yet': ['The key does not hold yet.', WAIT],
  expired: ['The key does not hold any more.', ONLINE],
  uncertain: ['The box does not know what time it is.', ONLINE],
  list: ['The box does not have the list that the key stands in.', ONLINE],
  index: ['The key has no place in its list.', ONLINE],
  revoked: ['The key was revoked.', ASK],
  stale: ['The box has not heard from the server for too long.', ONLINE],
  right: ['The key does not allow this.', ASK],
  counter: ['The box has seen a later answer of this phone: is its key in use elsewhere?', AGAIN],
  busy: ['The box is busy.', WAIT],
  unknown: ['The box is too old to know what the app has asked for.', ASK],
  generation: ['The box has another list in the place of this one.', ONLINE],
  'other-part': ['The parts with which the box is set up do not belong together.', ONLINE],
};

/** @type {Record<string, string>} */
const HELP = {
  [AGAIN]: 'Try again.',
  [WAIT]: 'Wait, then try again.',
  [ONLINE]: 'Go where there is a network, let the app meet the server, then try again.',
  [ASK]: 'Ask whoever gave you the key.',
};

/** A message was refused: by this phone while it read, where `code` says why. */
export class Refused extends Error {
  /**
   * @param {string} code one of `CODES`
   * @param {string} why for developers
   */
  constructor(code, why) {
    super(`${code}: ${why}`);
    this.name = 'Refused';
    this.code = code;
  }
}

/** A box has refused a command. `message` is for the user, and so is `help`. */
export class BoxRefusal extends Error {
  /** @param {number} number of the code, as the wire says it */
  constructor(number) {
    const code = CODES[number] ?? 'refused';
    const [text, action] = SAID[code] ?? ['The box and the app do not understand each other.', ONLINE];
    super(text);
    this.name = 'BoxRefusal';
    this.number = number;
    this.code = code;
    /** `again`, `wait`, `online` or `ask`: for an app that has texts of its own */
    this.action = action;
    this.help = HELP[action];
  }
}
