/**
 * The names that a box advertises, which change every 15 minutes (docs/key-bluetooth.md, "Advertisement").
 *
 * The server gives a phone a key for each day on which one of its keys may open the box.
 */

/**
 * @typedef {import('./cose.js').Bytes} Bytes
 * @typedef {import('./server.js').DayKey} DayKey
 */

export const SLOT_SECONDS = 900; // how long a name lasts
export const SLOTS_A_DAY = 96;
export const NEAR = 1; // slots before and after the present one, as two clocks differ
export const WIDE = 8; // for "My car is not listed": a box whose clock is wrong by up to two hours
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const CHARACTERS = 6; // after "K-"
const LABEL = new TextEncoder().encode('keyrack-name-1');
const HMAC = { name: 'HMAC', hash: 'SHA-256' };

/**
 * The slot of a time.
 * @param {number} time in seconds since 1970
 */
export function slotAt(time) {
  return Math.floor(time / SLOT_SECONDS);
}

/**
 * The day of a slot.
 * @param {number} slot
 */
export function dayOf(slot) {
  return Math.floor(slot / SLOTS_A_DAY);
}

/**
 * The name in a slot, by the key of its day: `K-` and six characters.
 * @param {Bytes} key
 * @param {number} slot
 * @returns {Promise<string>}
 */
export async function name(key, slot) {
  const hmac = await crypto.subtle.importKey('raw', key, HMAC, false, ['sign']);
  const message = new Uint8Array(LABEL.length + 4);
  message.set(LABEL);
  new DataView(message.buffer).setUint32(LABEL.length, slot);
  const bits = new DataView(await crypto.subtle.sign(HMAC, hmac, message)).getUint32(0) >>> 2;
  const places = Array.from({ length: CHARACTERS }, (_, place) => 5 * (CHARACTERS - 1 - place));
  return `K-${places.map((place) => ALPHABET[(bits >>> place) & 31]).join('')}`;
}

/**
 * The names of a box around a time. Compute them before the user taps: a browser lets no page wait between the tap and
 * the chooser.
 * @param {DayKey[]} dayKeys of the box
 * @param {number} time in seconds since 1970, by the phone's clock, corrected by its difference to the server's
 * @param {number} [reach] slots before and after the present one: `NEAR` or `WIDE`
 * @returns {Promise<string[]>} without the slots of days whose key the phone lacks
 */
export async function namesAround(dayKeys, time, reach = NEAR) {
  const keys = new Map(dayKeys.map(({ day, key }) => [day, key]));
  const slots = Array.from({ length: 2 * reach + 1 }, (_, place) => slotAt(time) - reach + place);
  const known = slots.flatMap((slot) => {
    const key = keys.get(dayOf(slot));
    return key === undefined ? [] : [name(key, slot)];
  });
  return Promise.all(known);
}
