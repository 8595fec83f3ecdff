/**
 * The texts of the app in English, and the choice of the language. `texts-de.js` has the same keys in German.
 */

import { GERMAN } from './texts-de.js';

/** @type {Record<string, string>} */
export const ENGLISH = {
  'app.name': 'Keyrack Drive',
  'app.update': 'A new version of the app is ready.',
  'app.update.now': 'Update now',
  'app.back': 'Back',
  'app.account': 'Account',
  'app.loading': 'Loading …',
  'error.network': 'No network. Try again when you have one.',
  'error.unknown': 'That did not work.',
};

const LANGUAGES = /** @type {const} */ (['en', 'de']);

/** @typedef {(typeof LANGUAGES)[number]} Language */

/** @type {Language} */
let chosen = ofBrowser();

/** @returns {Language} */
export function language() {
  return chosen;
}

/**
 * Use this language from now on; null takes the browser's.
 * @param {string | null} wanted
 */
export function setLanguage(wanted) {
  chosen = LANGUAGES.find((known) => known === wanted) ?? ofBrowser();
}

/**
 * The text of a key, with its `{placeholders}` replaced.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  const text = (chosen === 'de' ? GERMAN : ENGLISH)[key];
  if (text === undefined) throw new Error(`There is no text ${key}.`);
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/**
 * A point in time for the driver: `Thu 14:00`, today without the day, with the date if it is more than 6 days away.
 * @param {number} time in milliseconds since 1970
 * @param {number} [now]
 */
export function when(time, now = Date.now()) {
  const days = Math.abs(midnight(time) - midnight(now)) / 86_400_000;
  /** @type {Intl.DateTimeFormatOptions} */
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  /** @type {Intl.DateTimeFormatOptions} */
  const day = days < 0.5 ? {} : days < 6.5 ? { weekday: 'short' } : { weekday: 'short', day: 'numeric', month: 'short' };
  const locale = chosen === 'de' ? 'de' : 'en-GB';
  const hour = new Intl.DateTimeFormat(locale, clock).format(time);
  return days < 0.5 ? hour : `${new Intl.DateTimeFormat(locale, day).format(time).replace(/,$/, '')} ${hour}`;
}

/** @param {number} time */
function midnight(time) {
  return new Date(time).setHours(0, 0, 0, 0);
}

/** @returns {Language} */
function ofBrowser() {
  const wanted = globalThis.navigator?.languages ?? [];
  const known = wanted.map((tag) => tag.slice(0, 2)).find((tag) => LANGUAGES.some((each) => each === tag));
  return known === 'de' ? 'de' : 'en';
}
