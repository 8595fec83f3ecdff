/**
 * Forms: fields with labels, a button that shows that it works, and errors where they belong.
 */

import { ApiError, NoNetwork } from '../api.js';
import { el, fill, focusOn } from '../dom.js';
import { rejectionText } from '../rejections.js';
import { t } from '../texts.js';
import { noticeOf } from './parts.js';

/** @typedef {import('../dom.js').Attributes} Attributes */

let counter = 0;

/** What the driver has entered is not complete. The message is for the driver. */
export class Incomplete extends Error {}

/**
 * A field with its label: `fieldOf('E-mail', { name: 'emailAddress', type: 'email' })`.
 * @param {string} label
 * @param {Attributes} attributes of the input
 * @param {string} [hint]
 */
export function fieldOf(label, attributes, hint) {
  const id = `field-${(counter += 1)}`;
  return el(
    'div',
    { class: 'field' },
    el('label', { for: id }, label),
    hint !== undefined && el('span', { class: 'hint', id: `${id}-hint` }, hint),
    el('input', { id, 'aria-describedby': hint !== undefined && `${id}-hint`, ...attributes }),
  );
}

/**
 * The field of a new password, which the browser may suggest.
 * @param {string} label
 */
export function newPasswordOf(label) {
  return fieldOf(label, {
    name: 'password', type: 'password', autocomplete: 'new-password', required: true, minlength: 8, maxlength: 250,
  }, t('form.password.hint'));
}

/**
 * A form. `submit` gets its values; what it throws is shown above the button.
 * @param {{label: string, style?: string, submit: (values: Record<string, string>) => Promise<unknown>}} action
 * @param {...import('../dom.js').Child} fields
 */
export function formOf({ label, style = 'main', submit }, ...fields) {
  const problem = problemArea();
  const button = el('button', { class: `button ${style}`, type: 'submit' }, label);
  const form = el('form', {
    on: {
      submit: (event) => {
        event.preventDefault();
        const values = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(form)));
        run(button, problem, () => submit(values));
      },
    },
  }, ...fields, problem, button);
  return form;
}

/**
 * A button with an action of its own; what it throws is shown above it.
 * @param {string} label
 * @param {() => Promise<unknown>} action
 * @param {string} [style]
 */
export function actionOf(label, action, style = '') {
  const problem = problemArea();
  const button = el('button', {
    class: `button ${style}`, type: 'button', 'data-key': label, on: { click: () => run(button, problem, action) },
  }, label);
  return el('div', { class: 'buttons' }, problem, button);
}

/** The place of an error, which screen readers announce. */
function problemArea() {
  return el('div', { class: 'problem', role: 'alert' });
}

/**
 * @param {HTMLButtonElement} button
 * @param {HTMLElement} problem
 * @param {() => Promise<unknown>} action
 */
async function run(button, problem, action) {
  if (button.getAttribute('aria-disabled') === 'true') return;
  button.setAttribute('aria-disabled', 'true');
  fill(problem);
  try {
    await action();
  } catch (error) {
    fill(problem, problemOf(error));
  } finally {
    button.removeAttribute('aria-disabled');
  }
}

/**
 * What went wrong, and what helps.
 * @param {unknown} error
 */
export function problemOf(error) {
  if (error instanceof NoNetwork) return noticeOf('warn', t('app.offline'), [el('p', {}, t('error.network'))]);
  if (error instanceof Incomplete) return noticeOf('warn', error.message, []);
  if (error instanceof ApiError) return rejectionOf(error);
  const isCancelled = error instanceof DOMException && ['NotAllowedError', 'AbortError'].includes(error.name);
  if (isCancelled) return noticeOf('warn', t('form.passkey.cancelled'), [el('p', {}, t('form.passkey.help'))]);
  return noticeOf('bad', t('error.unknown'), [el('p', {}, t('rejection.fault'))]);
}

/** @param {ApiError} error */
function rejectionOf(error) {
  const { title, help } = rejectionText(error);
  const isSignedOut = error.status === 401 && error.code !== 'wrong-credentials';
  return noticeOf(isSignedOut ? 'warn' : 'bad', title, [
    el('p', {}, help),
    isSignedOut && el('a', { class: 'button', href: '#sign-in' }, t('action.sign-in')),
  ]);
}

/**
 * Whether the driver confirms a step that cannot be undone.
 * @param {{title: string, text: string, label: string}} step
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, label }) {
  const dialog = el('dialog', {
    class: 'chooser', 'aria-labelledby': 'confirm-title', 'aria-describedby': 'confirm-text',
  });
  const answerOf = (/** @type {string} */ value, /** @type {string} */ name, /** @type {string} */ style) => el('button', {
    class: `button ${style}`, type: 'button', autofocus: value === '', on: { click: () => dialog.close(value) },
  }, name);
  fill(
    dialog,
    el('h2', { id: 'confirm-title' }, title),
    el('p', { id: 'confirm-text' }, text),
    answerOf('yes', label, 'danger'),
    answerOf('', t('action.cancel'), ''),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
  });
}

/**
 * The message that something was done, for `showAfter`.
 * @param {string} text
 */
export function done(text) {
  return noticeOf('good', text, []);
}

/**
 * Show what a page has after an action. Its message has the focus, as the button of the action is gone.
 * @param {HTMLElement} body
 * @param {HTMLElement | null} message null at the first look
 * @param {...import('../dom.js').Child} others below it
 */
export function showAfter(body, message, ...others) {
  fill(body, message, ...others);
  if (message === null) return;
  focusOn(message.querySelector('h2'));
  scrollTo(0, 0);
}

/**
 * Show why a page cannot be shown, also to users of screen readers.
 * @param {HTMLElement} body
 * @param {unknown} error
 */
export function showProblem(body, error) {
  const area = problemArea();
  fill(body, area);
  fill(area, problemOf(error));
}
