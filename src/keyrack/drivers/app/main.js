/**
 * The start of the app: session, router and service worker.
 */

import { app, start } from './app.js';
import { fill } from './dom.js';
import { pageOf } from './pages/index.js';

let shown = 0;

/** Show the page of the address: `#lost` is `pages/lost.js`. */
async function route() {
  const turn = (shown += 1);
  const [name, argument] = address();
  const main = /** @type {HTMLElement} */ (document.getElementById('page'));
  app.argument = argument;
  const node = await pageOf(name)(app);
  if (turn !== shown) return; // another page was chosen meanwhile
  fill(main, node);
  main.dataset.page = name;
  document.title = main.querySelector('h1')?.textContent ?? document.title;
}

/**
 * The page and its argument: `#link=secret` is `link` and `secret`.
 * @returns {[string, string]}
 */
function address() {
  const [name, ...rest] = location.hash.slice(1).replace(/^\//, '').split('=');
  return [name, rest.join('=')];
}

addEventListener('hashchange', () => {
  route().then(() => document.getElementById('page')?.focus());
});
app.show = route;
await start();
await route();
