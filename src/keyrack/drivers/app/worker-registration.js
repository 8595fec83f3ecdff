/**
 * The service worker: its registration, and the notice of a new version.
 */

import { el, fill, icon } from './dom.js';
import { t } from './texts.js';

const WORKER = '/drive/sw.js';
const CHECK_MS = 3_600_000;

/**
 * Register the service worker.
 * @param {() => void} renewed is called when the worker has renewed the keys
 */
export async function registerWorker(renewed) {
  const container = navigator.serviceWorker;
  if (container === undefined) return;
  const hadController = container.controller !== null;
  container.addEventListener('controllerchange', () => {
    if (isUpdating) location.reload();
    else if (hadController) offerUpdate(null); // another tab has updated
  });
  container.addEventListener('message', ({ data }) => {
    if (data === 'renewed') renewed();
  });
  const registration = await container.register(workerAddress(), {
    type: 'module',
    scope: '/drive/',
    updateViaCache: 'none',
  });
  if (registration.waiting !== null && hadController) offerUpdate(registration);
  registration.addEventListener('updatefound', () => {
    const worker = registration.installing;
    worker?.addEventListener('statechange', () => {
      if (worker.state === 'installed' && container.controller !== null) offerUpdate(registration);
    });
  });
  setInterval(() => registration.update().catch(() => undefined), CHECK_MS);
  const { periodicSync } = /** @type {any} */ (registration);
  await periodicSync?.register('keys', { minInterval: CHECK_MS * 12 }).catch(() => undefined); // installed apps only
}

let isUpdating = false;

/** @param {ServiceWorkerRegistration | null} registration with a waiting worker; null if it has taken over */
function offerUpdate(registration) {
  const bar = /** @type {HTMLElement} */ (document.getElementById('bar'));
  const update = () => {
    isUpdating = true;
    if (registration?.waiting) registration.waiting.postMessage('update');
    else location.reload();
  };
  fill(bar, el(
    'div',
    { class: 'update' },
    icon('next'),
    el('span', {}, t('app.update')),
    el('button', { class: 'button quiet', type: 'button', on: { click: update } }, t('app.update.now')),
  ));
}

/** The address of the worker, for browsers with Trusted Types as well. */
function workerAddress() {
  const { trustedTypes } = /** @type {any} */ (globalThis);
  const policy = trustedTypes?.createPolicy('drive', {
    createScriptURL: (/** @type {string} */ address) => {
      if (address !== WORKER) throw new TypeError(address);
      return address;
    },
  });
  return policy?.createScriptURL(WORKER) ?? WORKER;
}
