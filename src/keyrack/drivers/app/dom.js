/**
 * Building of the page. Texts become text nodes, never markup, so no Trusted Types policy is needed for them.
 */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @typedef {Node | string | number | null | undefined | false} Child nothing appears for null, undefined and false
 *
 * @typedef {Object} Handlers
 * @property {Record<string, (event: any) => void>} [on] listeners by the names of their events
 *
 * Attributes; `true` sets an empty one, and false, null and undefined set none.
 * @typedef {Record<string, string | number | boolean | null | undefined | Record<string, any>> & Handlers} Attributes
 */

/**
 * An element: `el('button', { class: 'main', on: { click: open } }, 'Open')`.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  const { on = {}, ...others } = attributes;
  for (const [name, value] of Object.entries(others)) set(element, name, /** @type {any} */ (value));
  for (const [event, handler] of Object.entries(on)) element.addEventListener(event, handler);
  element.append(...nodes(children));
  return element;
}

/**
 * Put these children in place of the present ones.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/**
 * Put the focus on a heading or a message, so that screen readers go on there.
 * @param {Element | null} element
 */
export function focusOn(element) {
  element?.setAttribute('tabindex', '-1');
  /** @type {HTMLElement | null} */ (element)?.focus();
}

/** Paths of icons in a square of 24. */
const ICONS = {
  lock: 'M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3',
  unlock: 'M6 11h12v9H6zM8.5 11V7.5a3.5 3.5 0 0 1 6.8-1.2',
  person: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20.5c1-4 4-5.5 7.5-5.5s6.5 1.5 7.5 5.5',
  back: 'M15 5l-7 7 7 7',
  next: 'M9 5l7 7-7 7',
  pin: 'M12 21s-6.5-6-6.5-11a6.5 6.5 0 0 1 13 0c0 5-6.5 11-6.5 11zM12 12.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4z',
  phone: 'M6.5 4h3l1.5 4-2 1.5a11 11 0 0 0 5.5 5.5l1.5-2 4 1.5v3a2 2 0 0 1-2 2A15.5 15.5 0 0 1 4.5 6a2 2 0 0 1 2-2z',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  warn: 'M12 4l9 16H3zM12 10v4.5M12 17.2v.1',
  offline: 'M4 4l16 16M8 12.5a6 6 0 0 1 2.4-1.4M5 9.5a10 10 0 0 1 3-2M13 7a10 10 0 0 1 6 2.5M12 18.5v.1',
  copy: 'M9 9h10v11H9zM5 15V4h10',
  car: 'M3.5 17v-4.5l2.3-5.2a2 2 0 0 1 1.8-1.3h8.8a2 2 0 0 1 1.8 1.3l2.3 5.2V17zM3.5 12h17M5.5 17v2.2M18.5 17v2.2M7 14.5h.1M17 14.5h.1',
  clock: 'M12 20.5a8.5 8.5 0 1 0 0-17 8.5 8.5 0 0 0 0 17zM12 7.5V12l3 2',
};

/**
 * An icon, which screen readers skip.
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  for (const [key, value] of Object.entries({ viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true' })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

const ANNOUNCED_MS = 5_000; // later a reader would find the text a second time on the page
/** @type {ReturnType<typeof setTimeout> | undefined} */
let clearing;

/**
 * Tell users of screen readers.
 * @param {string} text
 */
export function announce(text) {
  const live = document.getElementById('live');
  if (live === null) return;
  live.textContent = text;
  clearTimeout(clearing);
  clearing = setTimeout(() => {
    live.textContent = '';
  }, ANNOUNCED_MS);
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | number | boolean | null | undefined} value
 */
function set(element, name, value) {
  if (value === false || value === null || value === undefined) return;
  element.setAttribute(name, value === true ? '' : String(value));
}

/**
 * @param {Array<Child | Child[]>} children
 * @returns {Array<Node | string>}
 */
function nodes(children) {
  const shown = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  return shown.map((child) => (child instanceof Node ? child : String(child)));
}
