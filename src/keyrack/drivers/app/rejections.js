/**
 * What a driver reads when the server rejects a call: by the code of the error, because the server's own text is for
 * developers.
 */

import { t } from './texts.js';

/**
 * Codes that mean the same to a driver have one text: the key of the title, that of the remedy, and the codes.
 * @type {Array<[string, string, string[]]>}
 */
const TEXTS = [
  ['form.wrong', 'form.wrong.help', ['wrong-credentials']],
  ['form.signed-out', 'rejection.signed-out', ['signed-out', 'invalid-token', 'token-before-removal']],
  ['link.expired', 'link.expired.text', ['link-expired']],
  ['moment.unapproved.title', 'moment.unapproved.text', ['device-not-approved']],
  ['moment.removed.title', 'moment.removed.text', ['device-removed']],
  ['moment.full.title', 'moment.full.text', ['too-many-devices']],
  ['rejection.no-access', 'rejection.invitation', [
    'customer-not-found', 'driver-provider-not-found', 'invitation-needed', 'no-app-access',
  ]],
  ['rejection.sign-in-again', 'rejection.sign-in-again.help', ['driver-sign-in-again']],
  ['rejection.provider-unknown', 'rejection.provider-unknown.help', ['provider-account-unknown']],
  ['rejection.provider-failed', 'rejection.provider-failed.help', ['provider-sign-in-failed']],
  ['rejection.provider-limited', 'rejection.provider-limited.help', ['provider-session-limited']],
  ['rejection.account-exists', 'rejection.account-exists.help', ['driver-account-exists']],
  ['rejection.account-kept', 'rejection.account-kept.help', ['driver-account-of-other-fleets']],
  ['rejection.no-credential', 'link.choose', ['no-credential-given']],
  ['rejection.password', 'rejection.password.help', ['wrong-driver-password']],
  ['rejection.passkey-known', 'rejection.passkey-known.help', ['passkey-known']],
  ['rejection.passkeys-full', 'rejection.passkeys-full.help', ['too-many-driver-passkeys']],
  ['form.passkey.cancelled', 'form.passkey.help', ['passkey-not-verified', 'passkeys-unavailable']],
  ['rejection.endless', 'requests.endless', ['assignment-without-end']],
  ['rejection.extension', 'rejection.extension.help', ['extension-out-of-range']],
  ['rejection.booked', 'rejection.booked.help', ['assignment-conflict']],
  ['rejection.decided', 'rejection.changed', ['assignment-request-decided']],
  ['rejection.gone', 'rejection.changed', [
    'assignment-of-driver-not-found', 'assignment-request-not-found', 'device-not-found', 'driver-passkey-not-found',
    'driver-session-not-found', 'no-key-for-box',
  ]],
  ['rejection.push', 'rejection.push.help', ['push-disabled', 'push-keys-invalid', 'push-service-not-allowed']],
  ['rejection.again', 'rejection.again.help', ['device-of-other-user', 'registration-nonce-unknown']],
  ['rejection.often', 'rejection.often.help', ['rate-limited']],
  ['rejection.slow', 'rejection.slow.help', ['body-too-slow', 'head-too-slow']],
  ['rejection.unknown-outcome', 'rejection.changed', ['outcome-unknown']],
  ['rejection.busy', 'rejection.busy.help', [
    'box-keys-inconsistent', 'customer-busy', 'database-interrupted', 'database-too-slow', 'database-unreachable',
    'overloaded', 'primary-unconfirmed', 'query-too-slow', 'secrets-unavailable', 'too-many-connections',
    'too-many-connections-of-address', 'too-many-waiting', 'waited-too-long',
  ]],
  ['error.unknown', 'rejection.fault', ['internal-error']],
  ['rejection.entry', 'rejection.entry.help', [
    'body-too-large', 'invalid-members', 'too-many-errors', 'wrong-form-of-body',
  ]],
  ['rejection.app', 'rejection.app.help', [
    'head-too-large', 'host-header', 'invalid-customer-id', 'invalid-header', 'invalid-host', 'invalid-http',
    'invalid-if-match', 'invalid-json', 'invalid-position', 'invalid-query-parameter', 'missing-customer-id',
    'other-origin', 'precondition-failed', 'precondition-only-for-reads', 'precondition-unsupported', 'query-not-ascii',
    'query-too-long', 'repeated-members', 'transfer-coding', 'unknown-members', 'unsupported-media-type',
  ]],
];

/** The texts by code. @type {Map<string, [string, string]>} */
const BY_CODE = new Map(TEXTS.flatMap(([title, help, codes]) => codes.map((code) => [code, [title, help]])));

/**
 * The codes with a text.
 * @returns {string[]}
 */
export function knownCodes() {
  return [...BY_CODE.keys()];
}

/**
 * What went wrong, and what helps. A newer server may send a code that this build does not know.
 * @param {{code: string, status: number}} error
 * @returns {{title: string, help: string}}
 */
export function rejectionText({ code, status }) {
  const [title, help] = BY_CODE.get(code) ?? ['error.unknown', status < 500 ? 'rejection.app.help' : 'rejection.fault'];
  return { title: t(title), help: t(help) };
}
