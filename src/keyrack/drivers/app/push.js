/**
 * Push messages: this browser hears of new keys while the app is closed. A message has no content about the driver.
 */

import { call } from './api.js';
import { fromBase64url, toBase64url } from './phone/bytes.js';

/** @returns {Promise<ServiceWorkerRegistration | undefined>} */
async function registration() {
  return navigator.serviceWorker?.getRegistration('/drive/');
}

/**
 * Whether this browser has a subscription; null if it cannot have one.
 * @param {string | null | undefined} key of the server
 * @returns {Promise<boolean | null>}
 */
export async function isSubscribed(key) {
  const manager = (await registration())?.pushManager;
  if (!key || manager === undefined || !('Notification' in window)) return null;
  return (await manager.getSubscription()) !== null;
}

/**
 * Subscribe this browser. It asks the driver for the permission.
 * @param {string} key of the server
 * @throws {DOMException} `NotAllowedError` if the driver refuses
 */
export async function subscribe(key) {
  const manager = /** @type {ServiceWorkerRegistration} */ (await registration()).pushManager;
  const subscription = await manager.subscribe({ userVisibleOnly: true, applicationServerKey: fromBase64url(key) });
  const [p256dh, auth] = [partOf(subscription, 'p256dh'), partOf(subscription, 'auth')];
  await call('PUT', '/drive/api/push', { endpoint: subscription.endpoint, p256dh, auth });
}

/** End the subscription of this browser. */
export async function unsubscribe() {
  await call('DELETE', '/drive/api/push');
  await forgetSubscription();
}

/** End it in the browser only: at the server it ends with the session. */
export async function forgetSubscription() {
  await (await (await registration())?.pushManager?.getSubscription())?.unsubscribe();
}

/**
 * @param {PushSubscription} subscription
 * @param {PushEncryptionKeyName} name
 */
function partOf(subscription, name) {
  return toBase64url(new Uint8Array(/** @type {ArrayBuffer} */ (subscription.getKey(name))));
}
