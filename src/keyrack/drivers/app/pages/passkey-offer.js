/**
 * The offer of a passkey, after the first opening: before it, a driver at the car has other worries.
 */

import { declinePasskey, refreshAfterChange } from '../app.js';
import { announce, el } from '../dom.js';
import { canUsePasskeys, createPasskey } from '../passkeys.js';
import { t } from '../texts.js';
import { actionOf } from './forms.js';

/** @typedef {import('../app.js').App} App */

/**
 * Whether the sign-in is recent enough for a new passkey, or a first password.
 * @param {App} app
 */
export function isRecent(app) {
  return Date.parse(app.session?.recentUntil ?? '') > app.now();
}

/**
 * Add a passkey to the account.
 * @param {App} app
 */
export async function addPasskey(app) {
  const options = await app.call('POST', '/drive/api/passkeys/options');
  await app.call('POST', '/drive/api/passkeys', { credential: await createPasskey(options) });
  announce(t('security.passkey.added'));
  await refreshAfterChange();
}

/**
 * Whether this browser and this server have passkeys.
 * @param {App} app
 */
export function hasPasskeys(app) {
  return canUsePasskeys() && (app.settings?.hasPasskeys ?? false);
}

/**
 * @param {App} app
 * @returns {Node | null}
 */
export function passkeyOfferOf(app) {
  const hasMoved = [...app.outcomes.values()].some(({ kind }) => kind === 'opened' || kind === 'closed');
  const isReachable = app.isSignedIn && app.isOnline;
  if (!hasMoved || !isReachable || !isRecent(app)) return null;
  if (app.hasDeclinedPasskey || app.session?.passkeys !== 0 || !hasPasskeys(app)) return null;
  return el(
    'section',
    { class: 'card' },
    el('h2', {}, t('passkey.offer')),
    el('p', { class: 'muted' }, t('passkey.offer.text')),
    el(
      'div',
      { class: 'pair' },
      actionOf(t('security.passkey.add'), () => addPasskey(app)),
      actionOf(t('passkey.decline'), declinePasskey, 'quiet'),
    ),
  );
}
