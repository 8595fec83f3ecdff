/**
 * The start of the app: the router, and when the server is asked.
 */

import { app, prepare, refresh, start } from './app.js';
import { NoNetwork } from './api.js';
import { el, fill, focusOn } from './dom.js';
import { isPublic, pageOf } from './pages/index.js';
import { hasLink, takeSecret } from './pages/link.js';
import { showTabs } from './pages/tabs.js';
import { language, t } from './texts.js';
import { registerWorker } from './worker-registration.js';

const TICK_MS = 30_000; // texts contain times, and the boxes change their names
const REFRESH_MS = 300_000; // while the page is visible
const WAIT_MS = 400; // a shorter wait needs no sign
const PROVIDER_RETURN = '/drive/sso'; // registered at providers

let shown = 0;

/** Show the page of the address: `#lost` is `pages/lost.js`. The same page keeps the focus. */
async function route() {
  takeSecret();
  const turn = (shown += 1);
  const [name, argument] = address();
  app.argument = argument;
  document.documentElement.lang = language();
  if (name === 'sign-in' && app.isSignedIn && !hasLink() && !isAgain()) {
    await app.goInstead(''); // the back button leads here after a sign-in
    return;
  }
  const page = isAllowed(name) ? name : 'sign-in';
  if (isAllowed(name)) app.wanted = isAgain() ? 'security' : '';
  else app.wanted = location.hash.slice(1);
  const main = /** @type {HTMLElement} */ (document.getElementById('page'));
  const waiting = main.dataset.page === page ? undefined : setTimeout(() => turn === shown && showLoading(), WAIT_MS);
  const node = await pageOf(page)(app);
  clearTimeout(waiting);
  if (turn !== shown) return; // another page was chosen meanwhile
  const focused = main.dataset.page === page ? focusedIn(main) : null;
  fill(main, node);
  main.dataset.page = page;
  showTabs(app, page);
  main.removeAttribute('aria-busy');
  document.title = [main.querySelector('h1')?.textContent, t('app.name')].filter(Boolean).join(' · ');
  if (focused !== null) focusLike(main, focused);
}

/** Show that the page comes, when the server is slow. */
function showLoading() {
  const main = /** @type {HTMLElement} */ (document.getElementById('page'));
  fill(main, el('p', { class: 'muted wait' }, t('app.loading')));
}

/** Whether a signed-in driver signs in again, for a new passkey or a first password. */
function isAgain() {
  return location.hash === '#sign-in=security';
}

/** @param {string} name */
function isAllowed(name) {
  return app.session !== null || isPublic(name);
}

/**
 * The element with the focus, if it is in the page.
 * @param {HTMLElement} main
 */
function focusedIn(main) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  return focused !== main && main.contains(focused) ? focused : null;
}

/**
 * Put the focus on the element with the same key. If that button is gone, the message that replaced it has the focus.
 * @param {HTMLElement} main
 * @param {HTMLElement} before
 */
function focusLike(main, before) {
  const { key } = before.dataset;
  const same = key === undefined ? null : main.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (same !== null) return /** @type {HTMLElement} */ (same).focus();
  const heading = before.matches('h1') ? null : main.querySelector('.notice h2');
  return focusOn(heading ?? main.querySelector('h1'));
}

/**
 * The page and its argument: `#return=12` is `return` and `12`.
 * @returns {[string, string]}
 */
function address() {
  const [name, ...rest] = location.hash.slice(1).replace(/^\//, '').split('=');
  return [name, rest.join('=')];
}

const LIVE = new Set(['', 'return', 'requests']);

/** Show a live page again. A page with a form is left alone, because the form would lose what was typed. */
async function showAgain() {
  const main = document.getElementById('page');
  const page = main?.dataset.page ?? 'none'; // before the first page
  const isLive = LIVE.has(page) && main?.querySelector('form') === null;
  if (isLive || (page === 'sign-in' && app.isSignedIn && !isAgain())) await route();
}

/** Ask the server. An error is for the page that is shown; the next contact may succeed. */
function askServer() {
  refresh().catch((error) => {
    if (!(error instanceof NoNetwork)) console.error(error);
  });
}

addEventListener('hashchange', async () => {
  await route();
  focusOn(document.querySelector('main h1'));
  scrollTo(0, 0);
});
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') askServer();
});
addEventListener('online', askServer);
addEventListener('offline', () => {
  app.isOnline = false;
  showAgain();
});
setInterval(async () => {
  if (document.visibilityState !== 'visible' || app.progress !== null) return;
  await prepare();
  await showAgain();
}, TICK_MS);
setInterval(() => {
  if (document.visibilityState === 'visible') askServer();
}, REFRESH_MS);

takeSecret(); // at once, as the first contact with the server can take long
app.show = showAgain;
app.showAnew = route;
showLoading();
if (location.pathname === PROVIDER_RETURN) history.replaceState(null, '', `/drive/#provider=${location.search.slice(1)}`);
await start();
if (app.session === null) await refresh().catch(() => undefined);
await route();
if (app.session !== null) askServer();
await registerWorker(async () => {
  await start();
  await showAgain();
});
