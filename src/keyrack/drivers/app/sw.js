/**
 * The service worker: serves the files of the app from its cache, and renews the keys in the background.
 *
 * The endpoints are never cached here. Every navigation gets the shell, so that the app starts without a network.
 */

import { readKept } from './kept.js';
import { renew } from './renewal.js';
import { setLanguage, t } from './texts.js';

const BUILD = '%BUILD%'; // the server writes the digest of all files here
const FILES = '%FILES%'.split(' '); // and the names of all files
const ROOT = '/drive/';
const PREFIX = 'keyrack-drive-';
const CACHE = PREFIX + BUILD;

/** @type {any} the worker's global object, whose types TypeScript lacks beside those of pages */
const worker = self;

worker.addEventListener('install', (/** @type {any} */ event) => event.waitUntil(store()));
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(takeOver()));
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const response = cached(event.request);
  if (response !== null) event.respondWith(response);
});
worker.addEventListener('message', (/** @type {any} */ event) => {
  if (event.data === 'update') worker.skipWaiting();
});
worker.addEventListener('sync', (/** @type {any} */ event) => event.waitUntil(renewAndTell())); // after an opening offline
worker.addEventListener('periodicsync', (/** @type {any} */ event) => event.waitUntil(renewAndTell()));
worker.addEventListener('push', (/** @type {any} */ event) => event.waitUntil(renewAndNotify()));
worker.addEventListener('notificationclick', (/** @type {any} */ event) => {
  event.notification.close();
  event.waitUntil(showApp());
});

/** Renew the keys, and let the pages show it. A rejection lets the browser try again later. */
async function renewAndTell() {
  await renew();
  for (const page of await worker.clients.matchAll({ includeUncontrolled: true })) page.postMessage('renewed');
}

/** Push services demand a notification. Its text is fixed, because locked screens show it. */
async function renewAndNotify() {
  await renewAndTell().catch(() => undefined); // the next start of the app renews them
  setLanguage((await readKept()).session?.language ?? null);
  const options = { body: t('push.changed'), icon: `${ROOT}icon-192.png`, tag: 'keys' };
  await worker.registration.showNotification(t('app.name'), options).catch(() => undefined);
}

async function showApp() {
  const [page] = await worker.clients.matchAll({ type: 'window' });
  await (page === undefined ? worker.clients.openWindow(ROOT) : page.focus());
}

async function store() {
  const cache = await caches.open(CACHE);
  await cache.addAll(['', ...FILES].map((name) => new Request(ROOT + name, { cache: 'reload' })));
}

/** Remove the caches of earlier builds, and serve the open pages. */
async function takeOver() {
  const names = await caches.keys();
  const old = names.filter((name) => name.startsWith(PREFIX) && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await worker.clients.claim();
}

/**
 * The cached response; null if the network has to answer.
 * @param {Request} request
 * @returns {Promise<Response> | null}
 */
function cached(request) {
  const { origin, pathname } = new URL(request.url);
  if (request.method !== 'GET' || origin !== location.origin || !pathname.startsWith(ROOT)) return null;
  const name = pathname.slice(ROOT.length);
  if (name === 'api' || name.startsWith('api/')) return null;
  if (request.mode === 'navigate') return fromCache('', request);
  return FILES.includes(name) ? fromCache(name, request) : null;
}

/**
 * @param {string} name
 * @param {Request} request
 */
async function fromCache(name, request) {
  const cache = await caches.open(CACHE);
  return (await cache.match(ROOT + name)) ?? fetch(request);
}
