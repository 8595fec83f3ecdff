/**
 * The sign-in: address and password, a passkey, or the account of a provider.
 */

import { el } from '../dom.js';
import { canOfferInField, usePasskey } from '../passkeys.js';
import { t } from '../texts.js';
import { actionOf, done, fieldOf, formOf } from './forms.js';
import { hasLink, keepSecret } from './link.js';
import { hasPasskeys } from './passkey-offer.js';

/** @typedef {import('../app.js').App} App */

/** @type {AbortController | null} of the offer of passkeys in the field */
let offer = null;

/**
 * @param {App} app
 * @returns {Node}
 */
export function show(app) {
  offerPasskeys(app).catch(() => undefined); // the button and the password remain
  return el(
    'div',
    { class: 'sign-in' },
    el('header', { class: 'welcome' }, el('h1', {}, t('sign-in.title')), reasonOf(app)),
    app.argument === 'deleted' && done(t('sign-in.deleted')),
    formOf(
      { label: t('action.sign-in'), submit: (values) => signIn(app, values) },
      fieldOf(t('form.address'), {
        name: 'emailAddress', type: 'email', autocomplete: 'username webauthn', inputmode: 'email', required: true,
        maxlength: 250, autocapitalize: 'none', spellcheck: 'false', value: app.session?.user.emailAddress ?? '',
      }),
      fieldOf(t('form.password'), {
        name: 'password', type: 'password', autocomplete: 'current-password', required: true, maxlength: 1_000,
      }),
    ),
    el(
      'div',
      { class: 'buttons' },
      hasPasskeys(app) && actionOf(t('sign-in.passkey'), () => signInByPasskey(app)),
      providersOf(app),
      el('a', { class: 'button quiet', href: '#forgot' }, t('sign-in.forgot')),
      app.wanted !== 'lost' && el('a', { class: 'button quiet', href: '#lost' }, t('lost.title')),
    ),
    el('p', { class: 'muted small' }, t('sign-in.none')),
  );
}

/**
 * Why to sign in.
 * @param {App} app
 */
function reasonOf(app) {
  if (app.wanted === 'lost') return el('p', {}, t('sign-in.lost'));
  if (app.wanted === 'security' && app.isSignedIn) return el('p', {}, t('sign-in.again'));
  return el('p', { class: 'muted' }, t('sign-in.text'));
}

/**
 * After the sign-in: the link that waits for it, else the page that was wanted.
 * @param {App} app
 */
export function goOn(app) {
  return app.signedIn(hasLink() ? 'link' : app.wanted);
}

/** @param {App} app */
function providersOf(app) {
  return (app.settings?.providers ?? []).map(({ id, name }) => actionOf(t('sign-in.provider', { name }), async () => {
    const { address } = await app.call('POST', '/drive/api/sso/options', { providerId: id });
    location.assign(address);
  }));
}

/**
 * @param {App} app
 * @param {Record<string, string>} values
 */
async function signIn(app, { emailAddress, password }) {
  offer?.abort();
  const { link } = await app.call('POST', '/drive/api/session', { emailAddress, password });
  if (link === null || link === undefined) return goOn(app);
  keepSecret(link); // the start password was right
  return app.go('link');
}

/** @param {App} app */
async function signInByPasskey(app) {
  offer?.abort();
  const options = await app.call('POST', '/drive/api/session/options');
  await app.call('POST', '/drive/api/session/passkey', { credential: await usePasskey(options) });
  await goOn(app);
}

/**
 * Let the browser offer passkeys in the list of the address field.
 * @param {App} app
 */
async function offerPasskeys(app) {
  offer?.abort();
  if (!(await canOfferInField()) || !app.settings?.hasPasskeys) return;
  offer = new AbortController();
  const options = await app.call('POST', '/drive/api/session/options');
  const credential = await usePasskey(options, { mediation: 'conditional', signal: offer.signal });
  await app.call('POST', '/drive/api/session/passkey', { credential });
  await goOn(app);
}
