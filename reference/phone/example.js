/**
 * An example of an app that uses the modules of this directory.
 */

import { openPhone } from './indexeddb.js';
import { Phone } from './phone.js';
import { Server } from './server.js';

/**
 * @param {string} base address of the API: `https://keyrack.example.com/v3`
 * @param {() => Promise<string>} idToken from your own server, which asks `POST /sdk/token`
 */
export async function start(base, idToken) {
  const { device, store } = await openPhone(); // the key pair and the stored state, created at the first start
  const phone = new Phone(device, store, new Server(base, idToken));
  const isApproved = await phone.register(subjectOf(await idToken()), 'Browser of Alice');
  if (isApproved) await phone.meetServer(); // otherwise a manager must approve the phone first
  return phone;
}

/**
 * @param {Phone} phone
 * @param {import('./link.js').Exchange} exchange the transport: one message to the box, its answer back
 * @param {(text: string) => void} say shows the user something
 */
export async function openBox(phone, exchange, say) {
  const conversation = phone.at(exchange);
  try {
    const { key } = await conversation.open();
    say(`Car ${key.carId} is open.`);
  } catch (error) {
    const { message, help = 'Try again.' } = /** @type {any} */ (error);
    say(`${message} ${help}`);
  }
  await conversation.fetchLog().catch(() => undefined); // a later visit fetches it
  await phone.meetServer().catch(async () => warn(await phone.store.overdue(), say)); // retried later
}

/**
 * @param {import('./store.js').HeldKey[]} overdue
 * @param {(text: string) => void} say
 */
function warn(overdue, say) {
  if (overdue.length > 0) say('Go online soon, because some keys expire soon.');
}

/** @param {string} idToken */
function subjectOf(idToken) {
  return JSON.parse(atob(idToken.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))).sub;
}
