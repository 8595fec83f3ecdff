/**
 * Passkeys of the driver, by WebAuthn. A browser that lacks the JSON forms of its options (Level 3) gets no button.
 */

/** Whether this browser can use passkeys at this address. */
export function canUsePasskeys() {
  const { PublicKeyCredential } = window;
  return PublicKeyCredential?.parseRequestOptionsFromJSON !== undefined
    && PublicKeyCredential.parseCreationOptionsFromJSON !== undefined;
}

/** Whether the browser can offer passkeys in the list of a field. */
export async function canOfferInField() {
  return canUsePasskeys() && (await PublicKeyCredential.isConditionalMediationAvailable?.()) === true;
}

/**
 * Create a passkey: the body's `credential`.
 * @param {{publicKey: any}} options
 * @returns {Promise<object>}
 */
export async function createPasskey({ publicKey }) {
  const parsed = PublicKeyCredential.parseCreationOptionsFromJSON(publicKey);
  return asJson(await navigator.credentials.create({ publicKey: parsed }));
}

/**
 * Ask for a passkey: the body's `credential`.
 * @param {{publicKey: any}} options
 * @param {{signal?: AbortSignal, mediation?: CredentialMediationRequirement}} [request]
 * @returns {Promise<object>}
 */
export async function usePasskey({ publicKey }, request = {}) {
  const parsed = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey);
  return asJson(await navigator.credentials.get({ publicKey: parsed, ...request }));
}

/** @param {Credential | null} credential */
function asJson(credential) {
  if (credential === null) throw new Error('The browser returned no passkey.');
  return /** @type {PublicKeyCredential} */ (credential).toJSON();
}
