/**
 * The main screen: the car, whether it can be opened, and the button.
 */

import { el } from '../dom.js';
import { t } from '../texts.js';

/**
 * @param {import('../app.js').App} app
 * @returns {Promise<Node>}
 */
export async function show(app) {
  return el('section', {}, el('h1', {}, app.session?.user.firstName ?? t('app.name')));
}
