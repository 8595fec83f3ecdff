/**
 * The boxes of a demo: Bluetooth for `WebBluetooth`, over the server's simulated radio.
 *
 * Only the radio is simulated. The fragments, their times and their errors are those of a real box. The page draws the
 * chooser, which a browser draws otherwise.
 */

import { call } from './api.js';
import { el, fill } from './dom.js';
import { fromBase64url, toBase64url } from './phone/bytes.js';
import { FROM_BOX, SIZE, TO_BOX, WebBluetooth } from './phone/bluetooth.js';
import { t } from './texts.js';

const PATH = '/drive/api/simulated-radio';

/** The simulated radio as a `Transport`. */
export class SimulatedRadio extends WebBluetooth {
  constructor() {
    super(new SimulatedBluetooth());
  }
}

/** The part of Web Bluetooth that `WebBluetooth` uses. */
class SimulatedBluetooth {
  /** @type {Map<string, SimulatedDevice>} by name */
  #devices = new Map();

  /**
   * Let the user choose a box. Boxes of other cars can be chosen, too, to see what the app says then.
   * @param {{filters: Array<{name?: string}>}} options
   * @returns {Promise<any>}
   */
  async requestDevice({ filters }) {
    const name = await choose(filters.flatMap((filter) => filter.name ?? []));
    if (name === null) throw new DOMException('The user chose no box.', 'NotFoundError');
    const device = this.#devices.get(name) ?? new SimulatedDevice(name);
    this.#devices.set(name, device);
    return device;
  }
}

/** A box that the user chose, with its only service. */
class SimulatedDevice extends EventTarget {
  #fromBox = new FromBox();
  /** @type {string | null} */
  #link = null;
  #size = 0;

  /** @param {string} name */
  constructor(name) {
    super();
    this.name = name;
    this.gatt = {
      connect: () => this.#connect(),
      disconnect: () => this.#disconnect(),
      getPrimaryService: async () => ({ getCharacteristic: async (/** @type {string} */ id) => this.#characteristic(id) }),
    };
  }

  async #connect() {
    const { link, size } = await this.#send({});
    if (link === null) throw new DOMException('The box is out of reach.', 'NetworkError');
    this.#link = link;
    this.#size = size;
    return this.gatt;
  }

  #disconnect() {
    if (this.#link !== null) this.#send({ link: this.#link }).catch(() => undefined); // the box ends an idle link, too
    this.#link = null;
  }

  /** @param {string} id */
  #characteristic(id) {
    if (id === FROM_BOX) return this.#fromBox;
    return { [SIZE]: { readValue: async () => this.#sizeValue() }, [TO_BOX]: { writeValueWithResponse: this.#write } }[id];
  }

  #sizeValue() {
    const value = new DataView(new ArrayBuffer(3));
    value.setUint8(0, 1);
    value.setUint16(1, this.#size);
    return value;
  }

  /** @param {Uint8Array} fragment */
  #write = async (fragment) => {
    if (this.#link === null) throw new DOMException('The box is not connected.', 'NetworkError');
    const { link, fragments } = await this.#send({ link: this.#link, fragment: toBase64url(fragment) });
    for (const each of fragments) this.#fromBox.notify(fromBase64url(each));
    if (link !== null) return;
    this.#link = null;
    this.dispatchEvent(new Event('gattserverdisconnected'));
  };

  /**
   * @param {{link?: string, fragment?: string}} body
   * @returns {Promise<{link: string | null, size: number, fragments: string[]}>}
   */
  #send(body) {
    return call('POST', `${PATH}/${this.name}`, body);
  }
}

/** The characteristic that notifies. */
class FromBox extends EventTarget {
  /** @type {DataView} */
  value = new DataView(new ArrayBuffer(0));

  async startNotifications() {
    return this;
  }

  /** @param {import('./phone/cose.js').Bytes} fragment */
  notify({ buffer, byteOffset, byteLength }) {
    this.value = new DataView(buffer, byteOffset, byteLength);
    this.dispatchEvent(new Event('characteristicvaluechanged'));
  }
}

/**
 * Show the names nearby, that of the own car first.
 * @param {string[]} own names that the own box may advertise
 * @returns {Promise<string | null>} null if the user chose none
 */
function choose(own) {
  const dialog = el('dialog', { class: 'chooser', 'aria-labelledby': 'chooser-title' });
  const end = (/** @type {string} */ name) => dialog.close(name);
  const list = el('ul', { class: 'rows', 'aria-live': 'polite' });
  const search = async () => fill(list, await rowsOf(own, end));
  fill(
    dialog,
    el('h2', { id: 'chooser-title' }, t('radio.title')),
    el('p', { class: 'muted' }, t('radio.text')),
    list,
    el('button', { class: 'button', type: 'button', on: { click: search } }, t('radio.search')),
    el('button', { class: 'button quiet', type: 'button', on: { click: () => end('') } }, t('radio.away')),
  );
  document.body.append(dialog);
  dialog.showModal();
  search();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue || null);
    });
  });
}

/**
 * @param {string[]} own
 * @param {(name: string) => void} end takes the chosen name
 */
async function rowsOf(own, end) {
  /** @type {{names: string[]}} */
  const { names } = await call('GET', PATH).catch(() => ({ names: [] })); // without a server no box is heard
  if (names.length === 0) return [el('li', { class: 'muted' }, t('radio.none'))];
  const isOwn = (/** @type {string} */ name) => own.includes(name);
  const ordered = [...names.filter(isOwn), ...names.filter((name) => !isOwn(name))];
  return ordered.map((name) => el('li', {}, el(
    'button',
    { class: 'row', type: 'button', on: { click: () => end(name) } },
    el(
      'span',
      { class: 'text' },
      el('strong', {}, name),
      own.length > 0 && el('span', { class: 'muted small' }, t(isOwn(name) ? 'radio.own' : 'radio.other')),
    ),
  )));
}
