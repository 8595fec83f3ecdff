import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decodeSigned, encode, Tagged } from '../cbor.js';
import { isSignedBy, read, sign, thumbprint } from '../cose.js';
import { DeviceKey } from '../keys.js';
import { isPublicKey, MESSAGES } from '../messages.js';
import { fromHex, HASH, OFF_CURVE, refusedAs, toHex } from './helping.js';

const device = await DeviceKey.generate();
const nonce = new Uint8Array(16);
const registration = await device.registration('somebody', nonce);

/** The registration with other parts: header, unprotected, payload, signature. */
function altered(change) {
  const parts = decodeSigned(registration).item.slice();
  change(parts);
  return encode(new Tagged(parts));
}

const header = (labels) => altered((parts) => { parts[0] = encode(new Map(labels)); });
const payload = (members) => altered((parts) => { parts[2] = encode(new Map(members)); });
const { kid } = device;
const { typ } = MESSAGES.registration;
const cnf = new Map([[1, device.publicKey]]);
const otherCurve = new Map([...device.publicKey, [-1, 2]]);

test('a registration is signed by the key that it names', async () => {
  const message = read(registration, 'registration');
  assert.equal(message.claims.sub, 'somebody');
  assert.deepEqual(message.claims.cnf, cnf);
  assert.deepEqual(message.kid, device.thumbprint.slice(0, 8));
  assert.ok(await isSignedBy(message, device.publicKey));
});

test('no other key has signed it, and no other claims', async () => {
  const message = read(registration, 'registration');
  const other = await DeviceKey.generate();
  assert.equal(await isSignedBy(message, other.publicKey), false);
  assert.equal(await isSignedBy({ ...message, kid: other.kid }, other.publicKey), false);
  assert.equal(await isSignedBy({ ...message, kid: other.kid }, device.publicKey), false);
  const claims = read(payload([[2, 'somebodx'], [8, cnf], [10, nonce]]), 'registration');
  assert.equal(await isSignedBy(claims, device.publicKey), false);
});

test('members that readers skip change nothing, whatever they are', () => {
  const own = [[2, 'somebody'], [8, cnf], [10, nonce]];
  for (const skipped of [[[-66048, 0]], [[-66303, [1, [2]]]], [[-66100, 'more'], [-66101, new Map([[1, nonce]])]]]) {
    assert.deepEqual(read(payload([...own, ...skipped]), 'registration').claims, { sub: 'somebody', cnf, nonce });
  }
});

test('a label beside those that readers skip is unknown', () => {
  for (const label of [-66047, -66304, 66048, 'more']) {
    const message = payload([[2, 'somebody'], [8, cnf], [10, nonce], [label, 0]]);
    assert.throws(() => read(message, 'registration'), refusedAs('claims'));
  }
});

test('keys of two kinds are in a key set, and each is a point of the curve', async () => {
  const claims = { iss: 'customer:7', iat: 1, sequence: 1, keys: [device.publicKey] };
  const set = await device.sign('keyset', { ...claims, 'service-keys': [device.publicKey, device.publicKey] });
  assert.equal(read(set, 'keyset').claims['service-keys'].length, 2);
  for (const wrong of [[], [device.publicKey, device.publicKey, device.publicKey], [OFF_CURVE]]) {
    await assert.rejects(device.sign('keyset', { ...claims, 'service-keys': wrong }), /service-keys/);
  }
});

test('a coordinate of p and more is none', () => {
  const y = fromHex('459243b9aa581806fe913bce99817ade11ca503c64d9a3c533415c083248fbcc'); // of x = 5
  const key = (x) => new Map([[1, 2], [-1, 1], [-2, fromHex(x)], [-3, y]]);
  assert.equal(isPublicKey(key(`${'00'.repeat(31)}05`)), true);
  assert.equal(isPublicKey(key('ffffffff00000001000000000000000000000001000000000000000000000004')), false); // p + 5
  assert.equal(isPublicKey(key(`${'00'.repeat(31)}06`)), false);
});

test('the private key cannot be extracted', async () => {
  await assert.rejects(crypto.subtle.exportKey('pkcs8', device.pair.privateKey), /extractable/);
  await assert.rejects(crypto.subtle.exportKey('jwk', device.pair.privateKey), /extractable/);
});

test('the thumbprint is that of RFC 9679', async () => {
  const x = '65eda5a12577c2bae829437fe338701a10aaa375e1bb5b5de108de439c08551d';
  const y = '1e52ed75701163f7f9e40ddf9f341b3dc9ba860af7e0ca7ca7e9eecd0084d19c';
  const key = new Map([[1, 2], [-1, 1], [-2, fromHex(x)], [-3, fromHex(y)]]);
  const expected = '496bd8afadf307e5b08c64b0421bf9dc01528a344a43bda88fadd1669da253ec';
  assert.equal(toHex(await thumbprint(key)), expected);
});

const FAULTS = [
  ['too-long', 'more than 500 bytes', new Uint8Array(501)],
  ['encoding', 'no item', registration.slice(0, -1)],
  ['encoding', 'tag 61 around it', Uint8Array.of(0xd8, 61, ...registration)],
  ['structure', 'no tag', registration.slice(1)],
  ['structure', 'no array', encode(new Tagged(1))],
  ['structure', 'an array of three', altered((parts) => parts.pop())],
  ['structure', 'an array of five', altered((parts) => parts.push(1))],
  ['structure', 'something unprotected', altered((parts) => parts[1].set(4, kid))],
  ['structure', 'no unprotected header', altered((parts) => { parts[1] = []; })],
  ['structure', 'no payload', altered((parts) => { parts[2] = 0; })],
  ['structure', 'a signature of 63 bytes', altered((parts) => { parts[3] = parts[3].slice(1); })],
  ['encoding', 'an empty header', altered((parts) => { parts[0] = new Uint8Array(); })],
  ['encoding', 'a tag around the header', altered((parts) => { parts[0] = Uint8Array.of(0xd2, ...parts[0]); })],
  ['header', 'no map', altered((parts) => { parts[0] = encode([1]); })],
  ['header', 'no typ', header([[1, -7], [4, kid]])],
  ['header', 'crit', header([[1, -7], [2, [4]], [4, kid], [16, typ]])],
  ['header', 'another label in place of typ', header([[1, -7], [4, kid], [3, typ]])],
  ['algorithm', 'ESP256', header([[1, -9], [4, kid], [16, typ]])],
  ['algorithm', 'an algorithm and a kid', header([[1, -8], [4, HASH], [16, typ]])],
  ['header', 'a kid of 32 bytes', header([[1, -7], [4, HASH], [16, typ]])],
  ['header', 'a typ that is a number', header([[1, -7], [4, kid], [16, 61]])],
  ['typ', 'the typ of an answer', header([[1, -7], [4, kid], [16, MESSAGES.answer.typ]])],
  ['encoding', 'a payload that is none', altered((parts) => { parts[2] = Uint8Array.of(0xff); })],
  ['claims', 'no map', altered((parts) => { parts[2] = encode([1]); })],
  ['claims', 'no cnf', payload([[2, 'somebody'], [10, nonce]])],
  ['claims', 'one more', payload([[2, 'somebody'], [8, cnf], [10, nonce], [1, 'customer:7']])],
  ['claims', 'another one', payload([[2, 'somebody'], [9, cnf], [10, nonce]])],
  ['claims', 'no nonce', payload([[2, 'somebody'], [8, cnf]])],
  ['claims', 'a nonce of 15 bytes', payload([[2, 'somebody'], [8, cnf], [10, nonce.slice(1)]])],
  ['claims', 'an empty text', payload([[2, ''], [8, cnf], [10, nonce]])],
  ['claims', 'a text of 129', payload([[2, 'a'.repeat(129)], [8, cnf], [10, nonce]])],
  ['claims', 'a cnf of two', payload([[2, 'somebody'], [8, new Map([...cnf, [3, kid]])], [10, nonce]])],
  ['claims', 'a key that is no point', payload([[2, 'somebody'], [8, new Map([[1, OFF_CURVE]])], [10, nonce]])],
  ['claims', 'a key of another curve', payload([[2, 'somebody'], [8, new Map([[1, otherCurve]])], [10, nonce]])],
];

for (const [code, what, bytes] of FAULTS) {
  test(`${code}: ${what}`, () => assert.throws(() => read(bytes, 'registration'), refusedAs(code)));
}

test('only the members of a message are signed', async () => {
  const claims = { sub: 'somebody', cnf, nonce };
  await assert.rejects(sign('registration', { ...claims, iss: 'customer:7' }, signer()), /iss/);
  await assert.rejects(sign('registration', { sub: 'somebody', nonce }, signer()), /cnf/);
  await assert.rejects(sign('registration', { ...claims, sub: '' }, signer()), /sub/);
});

function signer() {
  return { privateKey: device.pair.privateKey, kid };
}
