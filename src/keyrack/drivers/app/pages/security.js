/**
 * Sign-in and security: the password, passkeys, and where the driver is signed in.
 */

import { refreshAfterChange } from '../app.js';
import { el } from '../dom.js';
import { t, when } from '../texts.js';
import { actionOf, confirmed, done, fieldOf, formOf, newPasswordOf, showAfter, showProblem } from './forms.js';
import { headOf } from './parts.js';
import { addPasskey, hasPasskeys, isRecent } from './passkey-offer.js';

/**
 * @typedef {import('../app.js').App} App
 * @typedef {{id: number, device: string, created: string, seen: string, isCurrent: boolean}} SignedIn
 * @typedef {{id: number, name: string, isRefused: boolean, created: string, lastUsed: string | null}} Passkey
 */

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  const page = el('div', { class: 'security' }, headOf(t('security.title'), 'account'));
  const body = el('div', { class: 'stack' });
  page.append(body);
  await read(app, body);
  return page;
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {HTMLElement | null} [message] what was just done
 */
async function read(app, body, message = null) {
  try {
    const [sessions, passkeys] = await Promise.all([
      app.call('GET', '/drive/api/sessions'), app.call('GET', '/drive/api/passkeys'),
    ]);
    const own = app.session?.isOfProvider !== true;
    showAfter(body, message, own && passkeysOf(app, body, passkeys), own && passwordOf(app, body),
      sessionsOf(app, body, sessions), own && deletionOf(app));
  } catch (error) {
    showProblem(body, error);
  }
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {Passkey[]} passkeys
 */
function passkeysOf(app, body, passkeys) {
  const add = async () => {
    if (!isRecent(app)) return app.go('sign-in=security');
    await addPasskey(app);
    return read(app, body, done(t('security.passkey.added')));
  };
  const remove = (/** @type {Passkey} */ { id, name }) => async () => {
    const step = {
      title: t('security.passkey.remove', { name }), text: t('security.passkey.remove.text'), label: t('action.remove'),
    };
    if (!(await confirmed(step))) return;
    await app.call('DELETE', `/drive/api/passkeys/${id}`);
    await refreshAfterChange();
    await read(app, body, done(t('security.passkey.removed')));
  };
  const canAdd = hasPasskeys(app);
  if (!canAdd && passkeys.length === 0) return null;
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, t('security.passkeys')),
    el('p', { class: 'muted' }, t('security.passkeys.text')),
    el('ul', { class: 'plain' }, passkeys.map((passkey) => el(
      'li',
      { class: 'split' },
      el(
        'span',
        {},
        t('security.passkey.of', { name: passkey.name, time: when(Date.parse(passkey.created), app.now()) }),
        passkey.isRefused && ` · ${t('security.passkey.refused')}`,
      ),
      actionOf(t('action.remove'), remove(passkey), 'quiet'),
    ))),
    canAdd && actionOf(t('security.passkey.add'), add),
  );
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 */
function passwordOf(app, body) {
  const hasPassword = app.session?.hasPassword ?? false;
  const change = async (/** @type {Record<string, string>} */ { current, password }) => {
    if (!hasPassword && !isRecent(app)) return app.go('sign-in=security');
    await app.call('PUT', '/drive/api/password', hasPassword ? { current, password } : { password });
    await refreshAfterChange();
    return read(app, body, done(t('security.password.changed')));
  };
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, t('form.password')),
    formOf(
      { label: t(hasPassword ? 'security.password.change' : 'security.password.set'), style: '', submit: change },
      userNameOf(app),
      hasPassword && fieldOf(t('security.password.current'), {
        name: 'current', type: 'password', autocomplete: 'current-password', required: true, maxlength: 1_000,
      }),
      newPasswordOf(t('form.password.new')),
    ),
  );
}

/**
 * The user name, for password managers alone.
 * @param {App} app
 */
function userNameOf(app) {
  const value = app.session?.user.emailAddress ?? '';
  return el('input', { type: 'text', autocomplete: 'username', value, hidden: true, readonly: true });
}

/**
 * @param {App} app
 * @param {HTMLElement} body
 * @param {SignedIn[]} sessions
 */
function sessionsOf(app, body, sessions) {
  const end = (/** @type {string} */ path) => async () => {
    await app.call('DELETE', path);
    await read(app, body, done(t('security.session.ended')));
  };
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, t('security.sessions')),
    el('ul', { class: 'plain' }, sessions.map(({ id, device, seen, isCurrent }) => el(
      'li',
      { class: 'split' },
      el('span', {}, t(isCurrent ? 'security.session.here' : 'security.session.seen', {
        device: device || t('security.session.unknown'), time: when(Date.parse(seen), app.now()),
      })),
      !isCurrent && actionOf(t('security.session.end'), end(`/drive/api/sessions/${id}`), 'quiet'),
    ))),
    sessions.length > 1 && actionOf(t('security.sessions.end'), end('/drive/api/sessions')),
  );
}

/** @param {App} app */
function deletionOf(app) {
  const remove = async () => {
    await app.signOut(() => app.call('DELETE', '/drive/api/account'));
    await app.go('sign-in=deleted');
  };
  return el(
    'details',
    { class: 'card' },
    el('summary', {}, t('security.delete')),
    el('p', {}, t('security.delete.text')),
    actionOf(t('security.delete.confirm'), remove, 'danger'),
  );
}
