/**
 * A mail with a link, for a driver who cannot sign in.
 */

import { el, fill } from '../dom.js';
import { t } from '../texts.js';
import { done, fieldOf, formOf, showAfter } from './forms.js';
import { headOf } from './parts.js';

/** @typedef {import('../app.js').App} App */

/**
 * @param {App} app
 * @returns {Node}
 */
export function show(app) {
  const body = el('section', { class: 'card' });
  fill(body, ...(app.settings?.sendsMail === false ? withoutMail() : formFor(app, body)));
  return el('div', { class: 'forgot' }, headOf(t('forgot.title'), 'sign-in'), body);
}

function withoutMail() {
  return [el('p', {}, t('forgot.no-mail'))];
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 */
function formFor(app, body) {
  const submit = async (/** @type {Record<string, string>} */ { emailAddress }) => {
    await app.call('POST', '/drive/api/forgot', { emailAddress });
    showAfter(body, done(t('forgot.sent')), el('p', {}, t('forgot.sent.text')));
  };
  const address = fieldOf(t('form.address'), {
    name: 'emailAddress', type: 'email', autocomplete: 'email', inputmode: 'email', required: true, maxlength: 250,
    value: app.session?.user.emailAddress ?? '',
  });
  return [el('p', {}, t('forgot.text')), formOf({ label: t('forgot.send'), submit }, address)];
}
