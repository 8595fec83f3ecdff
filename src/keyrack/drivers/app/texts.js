/**
 * The texts of the app in English, and the choice of the language. `texts-de.js` has the same keys in German.
 */

import { GERMAN } from './texts-de.js';

/** @type {Record<string, string>} */
export const ENGLISH = {
  'app.name': 'Keyrack Drive',
  'app.update': 'A new version of the app is ready.',
  'app.update.now': 'Update now',
  'app.back': 'Back',
  'app.account': 'Account',
  'tabs.label': 'Pages',
  'tabs.cars': 'Cars',
  'tabs.booking': 'Booking',
  'app.loading': 'Loading\u00a0…',
  'app.offline': 'No network',
  'app.signed-out': 'You are signed out. Sign in to renew your keys.',
  'error.network': 'No network. Try again when you have one.',
  'error.unknown': 'That did not work.',
  'push.changed': 'Your keys have changed.',
  'cancelled.title': 'Your fleet has ended a booking',
  'cancelled.text': '{car}, until {end}',
  'cancelled.open': '{car}, without an end',
  'cars.others': 'Your other cars',
  'cars.none.title': 'No car for you now',
  'cars.none.text': 'Your next booking appears here as soon as your fleet makes it.',
  'cars.unread.title': 'Your cars are not loaded yet',
  'cars.unread.text': 'Go online once. Then the app opens your cars without a network, too.',
  'cars.period': '{start} to {end}',
  'cars.from': 'From {start}',
  'cars.place': 'Last seen {time}, show on the map',
  'cars.plate': 'Licence plate {plate}',
  'cars.retry': 'Load again',
  'phase.searching': 'Searching, up to 10 seconds\u00a0…',
  'phase.connecting': 'Connecting\u00a0…',
  'phase.opening': 'Opening\u00a0…',
  'phase.closing': 'Closing\u00a0…',
  'phase.log': 'Reading the log\u00a0…',
  'phase.slow': 'No box heard yet. Stand at the door and move the handle. Is Bluetooth on?',
  'phase.renewing': 'Renewing the keys\u00a0…',
  'action.open': 'Open',
  'action.open.again': 'Try again',
  'action.close': 'Close',
  'action.close.again': 'Try again',
  'action.search': 'Search again',
  'action.search-wider': 'My car is not listed',
  'action.renew': 'Renew the key now',
  'action.register': 'Register this phone again',
  'action.sign-in': 'Sign in',
  'action.phones': 'Show my phones',
  'action.it-is-open': 'It is open',
  'action.it-is-not': 'It is not open',
  'action.end': 'End the booking',
  'action.remind': 'Add a reminder',
  'action.update': 'Update the app',
  'action.copy-link': 'Copy the address of the app',
  'action.done': 'Done',
  'action.cancel': 'Cancel',
  'action.remove': 'Remove',
  'radio.title': 'Simulated radio',
  'radio.text': 'A demo has no Bluetooth. These boxes are near your simulated phone. Choose one.',
  'radio.own': 'the box of your car',
  'radio.other': 'the box of another car',
  'radio.none': 'No box is near.',
  'radio.search': 'Search again',
  'radio.away': 'Walk away: hear no box',
  'support.label': 'Code for support',
  'support.copy': 'Copy the code',
  'support.copied': 'Copied',
  'help.call': 'Call the fleet',
  'step.closed': 'Closed',
  'step.delivered': 'Log delivered',
  'step.undelivered': 'We deliver the log when you have network',
  'step.end': 'Booking still runs',
  'step.ended': 'Booking ended',
  'moment.ready.title': 'Ready',
  'moment.ready.text': 'Also without network, until {until}.',
  'moment.opened.title': 'Open',
  'moment.opened.text': 'The box opened at {at}.',
  'moment.no-web-bluetooth.title': 'This browser cannot open',
  'moment.no-web-bluetooth.text': 'Browsers need Web Bluetooth, which Safari and Firefox lack. On Android and on computers use Chrome or Edge. On an iPhone use a browser with Web Bluetooth, such as Bluefy, which is not made by us. Everything else works here.',
  'moment.no-box.title': 'This car has no key box',
  'moment.no-box.text': 'Your fleet hands out its key.',
  'moment.signed-out.title': 'Sign in to get the key',
  'moment.signed-out.text': 'This phone has no key for this car yet.',
  'moment.app-old.title': 'Update the app',
  'moment.app-old.text': 'The app is too old for this box. The update needs network.',
  'moment.box-old.title': 'The box is too old for the app',
  'moment.box-old.text': 'Your fleet has to update the box.',
  'moment.error.title': 'The box gave an unexpected answer',
  'moment.error.text': 'Try again. If it happens again, your fleet helps.',
  'moment.offline.title': 'Ready without network',
  'moment.offline.text': 'You can open until {until}.',
  'moment.offline-no-key.title': 'Go online once',
  'moment.offline-no-key.text': 'There is no network, and this phone has no key for this car yet. It gets the key within seconds when you have network.',
  'moment.interrupted.title': 'The connection was interrupted',
  'moment.interrupted.text': 'Stay at the door, and keep the app open and the screen on. Then try again.',
  'moment.interrupted.counter': 'The box has already received a later command. Try again.',
  'moment.unknown.title': 'Look at the car',
  'moment.unknown.text': 'The connection ended before the answer. We do not know whether the box moved. Trying again does no harm.',
  'moment.not-found.title': 'No box heard',
  'moment.not-found.text': 'Stand at the door and move the handle, so that the box wakes up. Bluetooth must be on, and the browser needs the permission “Nearby devices”; on older phones also location.',
  'moment.not-found.wide': 'The box may sleep, or its clock may be wrong. Move the door handle, wait 3 seconds, and search again.',
  'moment.no-bluetooth.title': 'Switch Bluetooth on',
  'moment.no-bluetooth.text': 'The app finds no Bluetooth. Switch it on, and allow the browser to use it.',
  'moment.no-key.title': 'No key on this phone yet',
  'moment.no-key.text': 'Fetch the key while you have network. It takes a few seconds.',
  'moment.expired.title': 'Your key has to be renewed',
  'moment.expired.text': 'Renew it now. Then open again.',
  'moment.expired.offline': 'Go where there is network, and renew it.',
  'moment.overdue.title': 'Go online soon',
  'moment.overdue.text': 'Your key ends {until}. It is renewed when you have network.',
  'moment.refused.title': 'Your key has to be renewed',
  'moment.refused.text': 'The box does not accept this key. Renew it, then open again.',
  'moment.refused.offline': 'The box does not accept this key. Go where there is network, and renew it.',
  'moment.unapproved.title': 'Your fleet has to approve this phone',
  'moment.unapproved.text': 'The key comes by itself after that.',
  'moment.removed.title': 'This phone was removed',
  'moment.removed.text': 'You or your fleet removed it, so its keys ended. Register it again if it is in your hands.',
  'moment.full.title': 'You have too many phones',
  'moment.full.text': 'Remove a phone that you no longer use.',
  'moment.revoked.title': 'Your fleet has ended your access',
  'moment.revoked.text': 'The box knows that this key was revoked. Only your fleet can give you another one.',
  'moment.ended.title': 'Your booking ended {end}',
  'moment.ended.text': 'The car no longer opens for you. Ask your fleet if you still need it.',
  'moment.withheld.title': 'Your fleet issues no key',
  'moment.withheld.text': 'There is a booking, but no key for it. Tell your fleet this reason: {reason}.',
  'moment.not-allowed.title': 'Your key does not allow this',
  'moment.not-allowed.text': 'Only your fleet can change that.',
  'moment.other-box.title': 'This is the box of another car',
  'moment.other-box.text': 'Yours is {car}. Go there, then choose its box.',
  'moment.early.title': 'From {start} on',
  'moment.early.text': 'Your booking has not begun. This phone opens the car from then on.',
  'moment.box-early.title': 'The box waits for {start}',
  'moment.box-early.text': 'Your key is not valid yet by the clock of the box. Wait a minute, then try again.',
  'moment.uncertain.title': 'The box lost its time',
  'moment.uncertain.text': 'Your phone sets its clock while it has network. Renew the key, then open again.',
  'moment.uncertain.offline': 'One phone with network repairs it. Go online at the car, or ask another driver.',
  'moment.no-effect.title': 'The box says open',
  'moment.no-effect.text': 'Pull the handle once more. If nothing moves, the battery of the box may be low. Call your fleet.',
  'moment.taken.title': 'The car is in use until {taken}',
  'moment.taken.open': 'The car is in use',
  'moment.taken.text': 'Your booking begins {start}.',
  'moment.busy.title': 'The box is busy',
  'moment.busy.text': 'Another phone is talking to it. Try again in a few seconds.',
  'moment.return.title': 'Your booking ends {end}',
  'moment.return.text': 'Put the key back, then close the car.',
  'moment.closed.title': 'Closed',
  'moment.closed.text': 'The box closed at {at}.',
  'form.address': 'E-mail address',
  'form.password': 'Password',
  'form.password.new': 'New password',
  'form.password.hint': 'At least 8 characters.',
  'form.wrong': 'The sign-in is not right',
  'form.wrong.help': 'Check the address and the password. After a mailed link you can choose a new one.',
  'form.passkey.cancelled': 'No passkey was used',
  'form.passkey.help': 'Try again, or use a password.',
  'form.signed-out': 'You are signed out',
  'rejection.password': 'The current password is not right',
  'rejection.no-account': 'This password opens no account',
  'rejection.no-access': 'No fleet gives you access at the moment',
  'rejection.invitation': 'Ask your fleet for an invitation to the app.',
  'rejection.passkeys': 'You have too many passkeys',
  'rejection.passkeys.help': 'Remove one that you no longer use.',
  'rejection.extension': 'The new end is not possible',
  'rejection.extension.help': 'It must be later than the present one, by 31 days at most.',
  'rejection.provider': 'The sign-in at the provider failed',
  'rejection.provider.help': 'Begin again. If it fails again, tell your fleet.',
  'rejection.no-driver': 'No driver has this account of the provider',
  'rejection.no-driver.help': 'Ask your fleet which e-mail address it has of you.',
  'rejection.often': 'Too many attempts',
  'rejection.often.help': 'Wait a few minutes, then try again.',
  'sign-in.title': 'Sign in',
  'sign-in.text': 'Your car keys are then on this phone, also without network.',
  'sign-in.lost': 'Sign in on this device. Then choose the lost phone, and its keys end. If you cannot sign in, call your fleet.',
  'sign-in.passkey': 'Sign in with a passkey',
  'sign-in.provider': 'Sign in with {name}',
  'sign-in.forgot': 'I cannot sign in',
  'sign-in.none': 'No account yet? Your fleet invites you by mail or with a QR code.',
  'forgot.title': 'I cannot sign in',
  'forgot.text': 'You get a mail with a link. It signs you in, and you can choose a new password.',
  'forgot.send': 'Send the mail',
  'forgot.sent': 'The mail is on its way',
  'forgot.sent.text': 'If a driver has this address, the mail arrives within a few minutes. Look in the spam folder, too.',
  'forgot.no-mail': 'This server sends no mails. Ask your fleet for a new invitation: a QR code is enough.',
  'link.title': 'Welcome',
  'link.invited': '{fleet} gives you its car keys',
  'link.for': 'For {address}',
  'link.choose': 'Choose how you sign in from now on. Your fleet does not see it.',
  'link.passkey': 'Use a passkey',
  'link.password': 'Use a password',
  'link.known': 'You already have an account. Sign in to add this fleet.',
  'link.cannot': 'I cannot sign in any more',
  'link.join': 'Add this fleet',
  'link.reset': 'Begin anew',
  'link.reset.text': 'Your passwords, passkeys and sign-ins end. Only cars of {fleet} appear then. Other fleets have to invite you again.',
  'link.other': 'Another driver is signed in here',
  'link.other.text': 'If you go on, {address} is signed out, and the keys of that driver leave this phone.',
  'link.expired': 'This link is no longer valid',
  'link.expired.text': 'It was used, replaced by a newer one, or is too old. Sign in, or ask your fleet for a new one.',
  'account.language': 'Language',
  'account.language.browser': 'As the phone',
  'account.sign-out': 'Sign out',
  'account.sign-out.hint': 'Signing out removes keys, cars and your data from this phone. The fleet keeps what the car has logged. You need a network.',
  'phones.title': 'Your phones',
  'phones.text': 'These phones get keys for your cars.',
  'phones.none': 'No phone has keys of you.',
  'phones.this': 'this phone',
  'phones.since': 'since {time}',
  'phones.unapproved': 'waits for the fleet',
  'phones.remove': 'Remove {name}?',
  'phones.remove.text': 'Its keys end. If it is lost or stolen, choose “I have lost my phone” instead.',
  'phones.removed': 'The phone was removed',
  'lost.title': 'I have lost my phone',
  'lost.text': 'Choose the phones that you no longer have. Their keys end at once.',
  'lost.choose': 'Choose at least one phone.',
  'lost.phones': 'Lost phones',
  'lost.this': 'This phone is one of them',
  'lost.this.text': 'The phone in your hand then opens no car, until you register it again.',
  'lost.confirm': 'End the keys of these phones',
  'lost.sessions': 'You are signed out everywhere else. Your fleet learns of it.',
  'lost.done': 'The keys of the lost phones have ended',
  'lost.none': 'They open no car any more.',
  'lost.cars': 'A lost phone may still open these cars',
  'lost.until': '{car}: until {until} at most.',
  'lost.power': 'A box that loses power may accept it for longer.',
  'lost.sooner': 'It ends earlier as soon as somebody opens the car with a phone that was online. Open it yourself, or ask your fleet to send someone.',
  'lost.passkeys': 'Was a passkey on the lost phone? Remove it:',
  'security.title': 'Sign-in and security',
  'passkey.offer': 'Sign in without a password',
  'passkey.offer.text': 'With a passkey you sign in by fingerprint, face or PIN. It takes a few seconds.',
  'passkey.decline': 'Not now',
  'security.passkeys': 'Passkeys',
  'security.passkeys.text': 'A passkey signs you in by fingerprint, face or PIN.',
  'security.passkey.add': 'Add a passkey',
  'security.passkey.of': '{name}, since {time}',
  'security.passkey.refused': 'refused, because it was copied',
  'security.passkey.added': 'The passkey was added',
  'security.passkey.removed': 'The passkey was removed',
  'security.password.current': 'Current password',
  'security.password.change': 'Change the password',
  'security.password.set': 'Set a password',
  'security.password.changed': 'The password was changed. You are signed out everywhere else.',
  'security.sessions': 'Where you are signed in',
  'security.session.here': '{device}, here',
  'security.session.seen': '{device}, last used {time}',
  'security.session.unknown': 'Unknown device',
  'security.session.end': 'Sign out',
  'security.session.ended': 'Signed out there',
  'security.sessions.end': 'Sign out everywhere else',
  'security.delete': 'Delete the account',
  'security.delete.text': 'You can no longer sign in, and this phone loses its keys. Your other phones keep theirs until you remove them or the keys expire. Your bookings stay with your fleet.',
  'security.delete.confirm': 'Delete my account',
  'requests.title': 'More time or return',
  'requests.ends': 'Your booking ends {end}',
  'requests.endless': 'Your booking has no end. Return the car when you no longer need it.',
  'requests.until': 'How much longer?',
  'requests.hours': '{hours} h, until {end}',
  'requests.other': 'Another time',
  'requests.time': 'New end',
  'requests.later': 'Choose a time after {end}.',
  'requests.comment': 'Note for the fleet (optional)',
  'requests.extend': 'Ask for more time',
  'requests.waits': 'Your fleet decides about your request.',
  'requests.sent': 'Your fleet has your request',
  'requests.granted': 'Granted: your booking is extended',
  'requests.return': 'Return the car',
  'requests.none': 'You have no requests.',
  'requests.list': 'Your requests',
  'requests.said': 'You: {comment}',
  'requests.reason': 'Fleet: {reason}',
  'requests.failed': 'It was not possible ({code}).',
  'requests.withdraw': 'Withdraw',
  'requests.withdrawn': 'The request was withdrawn',
  'requests.kind.end': 'end now',
  'requests.kind.extend': 'until {end}',
  'requests.state.open': 'Waits for the fleet',
  'requests.state.granted': 'Granted',
  'requests.state.rejected': 'Not granted',
  'requests.state.withdrawn': 'Withdrawn',
  'requests.state.expired': 'No decision in time',
  'return.title': 'Return the car',
  'return.text': '{car}, in this order:',
  'return.gone': 'This booking has ended.',
  'return.close': 'Put the key back and close the car',
  'return.hand-in': 'Hand in the key as your fleet says',
  'return.no-radio': 'This browser cannot close it. Use the phone that opened the car.',
  'return.deliver': 'Bring the log home',
  'return.deliver.now': 'Deliver now',
  'return.end': 'End the booking',
  'return.open': 'The car may still be open',
  'return.open.text': 'After the end of the booking, your key no longer closes it.',
  'return.anyway': 'End anyway',
  'return.done': 'done',
  'privacy.title': 'Privacy',
  'privacy.phone': 'On this phone',
  'privacy.phone.text': 'This browser stores your name, your cars, your keys and the log of openings that the server has not received. They leave the phone when you sign out. Nobody can read them from elsewhere.',
  'privacy.server': 'On the server',
  'privacy.server.text': 'Your name, address and account, your phones, bookings and requests, and each opening with its time, perhaps with its place.',
  'privacy.fleet': 'What your fleet sees',
  'privacy.fleet.text': 'Your bookings and openings of its cars, and when you last used the app for it. It sees no password and no other fleet.',
  'privacy.drivers': 'What other drivers see',
  'privacy.drivers.text': 'Only that a car is taken, and until when.',
  'privacy.push': 'Notifications',
  'privacy.push.text': 'Your browser\'s push service learns that there is news for you. It never gets a name, a car or a place.',
  'privacy.end': 'How long',
  'privacy.end.text': 'Sign-ins end after 90 days without use, requests after 90 days. Your fleet decides how long it keeps openings. Ask it to have your data deleted.',
  'privacy.export': 'Download my data',
  'push.title': 'Notifications',
  'push.off': 'This phone can renew its keys when something changes, even while the app is closed.',
  'push.on': 'This phone renews its keys when something changes.',
  'push.begin': 'Switch on',
  'push.end': 'Switch off',
};

const LANGUAGES = /** @type {const} */ (['en', 'de']);

/** @typedef {(typeof LANGUAGES)[number]} Language */

/** @type {Language} */
let chosen = ofBrowser();

/** @returns {Language} */
export function language() {
  return chosen;
}

/**
 * Use this language from now on; null takes the browser's.
 * @param {string | null} wanted
 */
export function setLanguage(wanted) {
  chosen = LANGUAGES.find((known) => known === wanted) ?? ofBrowser();
}

/**
 * The text of a key, with its `{placeholders}` replaced.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 * @returns {string}
 */
export function t(key, values = {}) {
  const text = (chosen === 'de' ? GERMAN : ENGLISH)[key];
  if (text === undefined) throw new Error(`There is no text ${key}.`);
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/**
 * A point in time for the driver: `Thu 14:00`, today without the day, with the date if it is more than 6 days away.
 * @param {number} time in milliseconds since 1970
 * @param {number} [now]
 */
export function when(time, now = Date.now()) {
  const days = Math.abs(midnight(time) - midnight(now)) / 86_400_000;
  /** @type {Intl.DateTimeFormatOptions} */
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  /** @type {Intl.DateTimeFormatOptions} */
  const day = days < 0.5 ? {} : days < 6.5 ? { weekday: 'short' } : { weekday: 'short', day: 'numeric', month: 'short' };
  const locale = chosen === 'de' ? 'de' : 'en-GB';
  const hour = new Intl.DateTimeFormat(locale, clock).format(time);
  return days < 0.5 ? hour : `${new Intl.DateTimeFormat(locale, day).format(time).replace(/,$/, '')} ${hour}`;
}

/**
 * A period; its end has no day if it is on the day of its start.
 * @param {number} start
 * @param {number} end
 * @param {number} [now]
 */
export function period(start, end, now = Date.now()) {
  const isOneDay = midnight(start) === midnight(end);
  return t('cars.period', { start: when(start, now), end: when(end, isOneDay ? end : now) });
}

/** @param {number} time */
function midnight(time) {
  return new Date(time).setHours(0, 0, 0, 0);
}

/** @returns {Language} */
function ofBrowser() {
  const wanted = globalThis.navigator?.languages ?? [];
  const known = wanted.map((tag) => tag.slice(0, 2)).find((tag) => LANGUAGES.some((each) => each === tag));
  return known === 'de' ? 'de' : 'en';
}
