/**
 * What this phone stores, where and how long, and who sees what of a driver.
 */

import { el } from '../dom.js';
import { t } from '../texts.js';
import { headOf } from './parts.js';

const FACTS = ['phone', 'server', 'fleet', 'drivers', 'push', 'end'];

/** @returns {Node} */
export function show() {
  return el(
    'div',
    { class: 'privacy' },
    headOf(t('privacy.title'), 'account'),
    FACTS.map((fact) => el(
      'section',
      { class: 'card' },
      el('h2', {}, t(`privacy.${fact}`)),
      el('p', {}, t(`privacy.${fact}.text`)),
    )),
    el('a', { class: 'button', href: '/drive/api/export', download: 'keyrack-data.json' }, t('privacy.export')),
  );
}
