/**
 * A link to the app: an invitation, a mailed link, or the first sign-in with a start password.
 */

import { ApiError } from '../api.js';
import { el, fill } from '../dom.js';
import { createPasskey } from '../passkeys.js';
import { t } from '../texts.js';
import { actionOf, formOf, newPasswordOf, problemOf } from './forms.js';
import { noticeOf } from './parts.js';
import { hasPasskeys } from './passkey-offer.js';

/**
 * @typedef {import('../app.js').App} App
 *
 * @typedef {Object} Preview the response of `POST /drive/api/links/preview`
 * @property {'invitation' | 'mailed' | 'setup'} kind
 * @property {{id: number, name: string} | null} customer
 * @property {string} emailAddress with most of it hidden
 * @property {boolean} hasAccount
 * @property {boolean} isSignedInAsThisUser
 * @property {boolean} resets
 * @property {boolean} canReset
 */

let secret = '';

/** Take the secret out of the address, so that neither the history nor a screenshot keeps it. */
export function takeSecret() {
  const [, found] = /^#\/?link=(.+)$/.exec(location.hash) ?? [];
  if (found === undefined) return;
  secret = found;
  history.replaceState({ secret }, '', '#link'); // a reload of this tab still finds it
}

/** @param {string} other is opened by the page from now on */
export function keepSecret(other) {
  secret = other;
}

/** Whether a link waits for the sign-in. */
export function hasLink() {
  return secret !== '';
}

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  secret ||= history.state?.secret ?? '';
  history.replaceState({ secret }, '', '#link');
  const page = el('div', { class: 'link' });
  try {
    if (secret === '') throw new ApiError(404, {});
    fill(page, ...accept(app, page, await app.call('POST', '/drive/api/links/preview', { secret })));
  } catch (error) {
    fill(page, ...unusable(app, error));
  }
  return page;
}

/**
 * @param {App} app
 * @param {unknown} error
 */
function unusable(app, error) {
  if (!(error instanceof ApiError && error.status === 404)) {
    return [el('header', { class: 'welcome' }, el('h1', {}, t('link.title'))), problemOf(error), again()];
  }
  forget(); // else it would come again after the sign-in
  return [
    el('header', { class: 'welcome' }, el('h1', {}, t('link.expired')), el('p', {}, t('link.expired.text'))),
    app.isSignedIn
      ? el('a', { class: 'button main', href: '#' }, t('tabs.cars'))
      : el('a', { class: 'button main', href: '#sign-in' }, t('action.sign-in')),
  ];
}

function again() {
  return el('button', { class: 'button main', type: 'button', on: { click: () => location.reload() } }, t('cars.retry'));
}

/**
 * @param {App} app
 * @param {HTMLElement} page
 * @param {Preview} preview
 */
function accept(app, page, preview) {
  const { kind, customer, emailAddress, isSignedInAsThisUser } = preview;
  const title = customer !== null ? t('link.invited', { fleet: customer.name }) : t('link.title');
  const head = el(
    'header',
    { class: 'welcome' },
    el('h1', {}, title),
    el('p', { class: 'muted' }, t('link.for', { address: emailAddress })),
  );
  if (kind === 'invitation' && isSignedInAsThisUser) return [head, joining(app)];
  if (kind === 'invitation' && preview.hasAccount) return [head, ...known(app, page, preview)];
  return [head, !isSignedInAsThisUser && otherOf(app), ...choices(app, preview)];
}

/**
 * The warning that another driver is signed in on this phone.
 * @param {App} app
 */
function otherOf(app) {
  if (app.session === null) return null;
  return noticeOf('warn', t('link.other'), [
    el('p', {}, t('link.other.text', { address: app.session.user.emailAddress })),
  ]);
}

/** @param {App} app */
function joining(app) {
  return actionOf(t('link.join'), async () => {
    await app.call('POST', '/drive/api/links/join', { secret });
    forget();
    await app.signedIn();
  }, 'main');
}

/**
 * The driver has an account: sign in and open the link again, or begin anew.
 * @param {App} app
 * @param {HTMLElement} page
 * @param {Preview} preview
 */
function known(app, page, preview) {
  const restart = async () => {
    const [head] = page.childNodes;
    fill(page, head, noticeOf('warn', t('link.reset'), [
      el('p', {}, t('link.reset.text', { fleet: preview.customer?.name ?? '' })),
    ]), otherOf(app), ...choices(app, preview));
  };
  return [
    el('p', {}, t('link.known')),
    el('a', { class: 'button main', href: '#sign-in' }, t('action.sign-in')),
    ...(preview.canReset
      ? [actionOf(t('link.cannot'), restart, 'quiet')]
      : [
        el('a', { class: 'button quiet', href: '#forgot' }, t('sign-in.forgot')),
        el('p', { class: 'muted' }, t('link.kept')),
      ]),
  ];
}

/**
 * The choice of a password or a passkey.
 * @param {App} app
 * @param {Preview} preview
 */
function choices(app, { hasAccount, isSignedInAsThisUser, resets }) {
  const reset = hasAccount && resets;
  const send = async (/** @type {object} */ credentials) => {
    if (app.session !== null && !isSignedInAsThisUser) await app.signOut(); // so that the other one's log is delivered
    await app.call('POST', '/drive/api/links/accept', { secret, reset, ...credentials });
    forget();
    await app.signedIn();
  };
  const byPasskey = async () => {
    const options = await app.call('POST', '/drive/api/links/options', { secret });
    await send({ credential: await createPasskey(options) });
  };
  return [
    el('p', {}, t('link.choose')),
    hasPasskeys(app) && actionOf(t('link.passkey'), byPasskey, 'main'),
    formOf({ label: t('link.password'), style: '', submit: ({ password }) => send({ password }) },
      newPasswordOf(t('form.password.new'))),
  ];
}

function forget() {
  secret = '';
  history.replaceState(null, '', '#link');
}
