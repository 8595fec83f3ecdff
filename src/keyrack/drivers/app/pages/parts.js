/**
 * Parts that several pages show.
 */

import { announce, el, fill, icon } from '../dom.js';
import { t } from '../texts.js';

/** @typedef {import('../dom.js').Child} Child */

const SIGNS = /** @type {const} */ ({ good: 'check', note: 'clock', warn: 'warn', bad: 'warn' });

/**
 * A state: a sign, a title and what helps.
 * @param {keyof typeof SIGNS} tone
 * @param {string} title
 * @param {Child[]} children
 */
export function noticeOf(tone, title, children) {
  return el(
    'section',
    { class: `notice ${tone}` },
    icon(SIGNS[tone]),
    el('div', { class: 'text' }, el('h2', {}, title), children),
  );
}

/**
 * Who helps: the phone number of the fleet, and the code that it asks for.
 * @param {string | null} phone
 * @param {string | null} support
 */
export function helpOf(phone, support) {
  if (phone === null && support === null) return null;
  return el(
    'div',
    { class: 'help' },
    phone !== null && el(
      'a',
      { class: 'button', href: callOf(phone), 'data-key': 'phone' },
      icon('phone'),
      el('span', { class: 'two' }, el('span', {}, t('help.call')), el('span', { class: 'muted small' }, phone)),
    ),
    support !== null && supportOf(support),
  );
}

/**
 * The address that calls a number.
 * @param {string} phone
 */
export function callOf(phone) {
  return `tel:${phone.replace(/[^+\d]/g, '')}`;
}

/** @param {string} code */
function supportOf(code) {
  const copy = async (/** @type {Event} */ { currentTarget }) => {
    const button = /** @type {HTMLButtonElement} */ (currentTarget);
    await navigator.clipboard?.writeText(code).catch(() => undefined); // it can be selected as well
    fill(button, icon('check'));
    announce(t('support.copied'));
  };
  return el(
    'div',
    { class: 'support small' },
    el('p', {}, el('span', { class: 'muted' }, t('support.label')), el('code', { class: 'code' }, partsOf(code))),
    el('button', {
      class: 'button quiet', type: 'button', 'aria-label': t('support.copy'), 'data-key': 'copy', on: { click: copy },
    }, icon('copy')),
  );
}

/**
 * The parts of a code, each of which stays on one line.
 * @param {string} code
 */
function partsOf(code) {
  return code.split(' ').flatMap((part) => [el('span', {}, part), ' ']).slice(0, -1);
}

/**
 * The head of a page below the main screen: a way back, and the title.
 * @param {string} title
 * @param {string} [back] the page to go back to
 */
export function headOf(title, back = '') {
  return el(
    'header',
    { class: 'head' },
    el('a', { href: `#${back}`, 'aria-label': t('app.back'), 'data-key': 'back' }, icon('back')),
    el('h1', {}, title),
  );
}
