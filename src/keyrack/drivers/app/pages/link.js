/**
 * A link to the app: an invitation, a mailed link, or the first sign-in with a start password.
 *
 * The secret leaves the address at once, so that neither the history nor a screenshot keeps it.
 */

import { ApiError } from '../api.js';
import { el, fill } from '../dom.js';
import { canUsePasskeys, createPasskey } from '../passkeys.js';
import { t } from '../texts.js';
import { actionOf, formOf, newPasswordOf, problemOf } from './forms.js';
import { noticeOf } from './parts.js';

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
 */

let secret = '';

/** The page to show after a sign-in: the link that waits for it, else the main screen. */
export function pageAfterSignIn() {
  return secret === '' ? '' : 'link';
}

/**
 * @param {App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  if (app.argument !== '') {
    secret = app.argument;
    history.replaceState({ secret }, '', '#link'); // a reload of this tab still finds it
  }
  secret ||= history.state?.secret ?? '';
  const page = el('div', { class: 'link' });
  try {
    if (secret === '') throw new ApiError(404, {});
    fill(page, ...accept(app, page, await app.call('POST', '/drive/api/links/preview', { secret })));
  } catch (error) {
    fill(page, ...unusable(error));
  }
  return page;
}

/** @param {unknown} error */
function unusable(error) {
  if (!(error instanceof ApiError && error.status === 404)) return [el('h1', {}, t('link.title')), problemOf(error)];
  return [
    el('header', { class: 'welcome' }, el('h1', {}, t('link.expired')), el('p', {}, t('link.expired.text'))),
    el('a', { class: 'button main', href: '#sign-in' }, t('action.sign-in')),
  ];
}

/**
 * @param {App} app
 * @param {HTMLElement} page
 * @param {Preview} preview
 */
function accept(app, page, preview) {
  const { kind, customer, emailAddress, isSignedInAsThisUser } = preview;
  const title = kind === 'invitation' && customer !== null ? t('link.invited', { fleet: customer.name }) : t('link.title');
  const head = el(
    'header',
    { class: 'welcome' },
    el('h1', {}, title),
    el('p', { class: 'muted' }, t('link.for', { address: emailAddress })),
  );
  if (kind === 'invitation' && isSignedInAsThisUser) return [head, joining(app)];
  if (kind === 'invitation' && preview.hasAccount) return [head, ...known(app, page, preview)];
  return [head, ...choices(app, preview.resets && preview.hasAccount)];
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
  const restart = async () => fill(page, /** @type {Node} */ (page.firstChild), noticeOf('warn', t('link.reset'), [
    el('p', {}, t('link.reset.text', { fleet: preview.customer?.name ?? '' })),
  ]), ...choices(app, true));
  return [
    el('p', {}, t('link.known')),
    el('a', { class: 'button main', href: '#sign-in' }, t('action.sign-in')),
    actionOf(t('link.cannot'), restart, 'quiet'),
  ];
}

/**
 * The choice of a password or a passkey.
 * @param {App} app
 * @param {boolean} reset
 */
function choices(app, reset) {
  const send = async (/** @type {object} */ credentials) => {
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
    canUsePasskeys() && app.settings?.hasPasskeys !== false && actionOf(t('link.passkey'), byPasskey, 'main'),
    formOf({ label: t('link.password'), style: '', submit: ({ password }) => send({ password }) },
      el('input', { class: 'unseen', type: 'text', autocomplete: 'username', tabindex: '-1', 'aria-hidden': 'true' }),
      newPasswordOf(t('form.password.new'))),
  ];
}

function forget() {
  secret = '';
  history.replaceState(null, '', '#link');
}
