/**
 * The interface between an app and the radio: how it finds a box nearby, and exchanges messages with it.
 *
 * [bluetooth.js](bluetooth.js) implements it for browsers. A native shell brings its own `Transport`, which throws the
 * same errors.
 */

import { TransportLost } from './link.js';

/**
 * @typedef {import('./link.js').Exchange} Exchange
 *
 * @typedef {Object} Transport
 * @property {(names: string[]) => Promise<NearbyBox | null>} find let the user choose a box with one of these names, or
 *   any box if there are none; null if the user chose none. Call it at once after a tap, without an `await` before. It
 *   throws `NoBluetooth`.
 *
 * @typedef {Object} NearbyBox a box that the user chose; only its challenge tells which box it is
 * @property {string} name the advertised one
 * @property {boolean} isConnected
 * @property {() => Promise<void>} connect begin a link, if there is none. It throws `TransportLost`, or `BoxBusy` if
 *   another page of the app is connected to the box.
 * @property {Exchange} exchange throws `TransportLost`, or `BoxBusy`. The link has ended after a `TransportLost`.
 * @property {() => Promise<void>} close end the link
 */

/** The device has no Bluetooth, or the app may not use it. `message` and `help` are for the user. */
export class NoBluetooth extends Error {
  constructor() {
    super('This app cannot use Bluetooth.');
    this.name = 'NoBluetooth';
    this.action = 'ask';
    this.help = 'Switch Bluetooth on, and allow its use. A browser may lack it: use another one then.';
  }
}

/** The box exchanges messages with other phones, or with another page of the app. It has ignored the message. */
export class BoxBusy extends TransportLost {
  constructor() {
    super('none');
    this.name = 'BoxBusy';
    this.message = 'The box is busy.';
    this.action = 'wait';
    this.help = 'Wait, then try again.';
  }
}
