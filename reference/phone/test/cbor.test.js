import assert from 'node:assert/strict';
import { test } from 'node:test';

import { decode, decodeSigned, encode, Tagged } from '../cbor.js';
import { fromHex, refusedAs, toHex } from './helping.js';

/** @param {number} depth */
function nested(depth) {
  return depth === 1 ? [] : [nested(depth - 1)];
}

const GOOD = [
  [0, '00'],
  [23, '17'],
  [24, '1818'],
  [255, '18ff'],
  [256, '190100'],
  [65_535, '19ffff'],
  [65_536, '1a00010000'],
  [2 ** 32 - 1, '1affffffff'],
  [2 ** 32, '1b0000000100000000'],
  [2 ** 53 - 1, '1b001fffffffffffff'],
  [-1, '20'],
  [-24, '37'],
  [-25, '3818'],
  [-(2 ** 31), '3a7fffffff'],
  ['', '60'],
  ['box:1041:3', '6a 626f783a313034313a33'],
  [' ~', '62 207e'],
  [new Uint8Array(), '40'],
  [Uint8Array.of(1, 2), '42 0102'],
  [new Uint8Array(300), `59012c ${'00'.repeat(300)}`],
  [[], '80'],
  [[1, [2, '3']], '82 01 82 02 6133'],
  [new Map(), 'a0'],
  [nested(6), '81 81 81 81 81 80'],
];

for (const [value, hex] of GOOD) {
  test(`${hex.slice(0, 40)} is read, and made again`, () => {
    assert.equal(toHex(encode(value)), hex.replaceAll(' ', ''));
    assert.deepEqual(decode(fromHex(hex)), value);
  });
}

test('the keys of a map stand in the order of their encodings', () => {
  const keys = ['aa', 'b', 'a', -65_537, -1, 65_535, 10, 2, 1];
  const ordered = [1, 2, 10, 65_535, -1, -65_537, 'a', 'b', 'aa'];
  const read = decode(encode(new Map(keys.map((key) => [key, 0]))));
  assert.deepEqual([...read.keys()], ordered);
});

test('tag 18 stands around the whole item, where a signed message stands', () => {
  const bytes = fromHex('d2 81 01');
  assert.deepEqual(decodeSigned(bytes), new Tagged([1]));
  assert.deepEqual(encode(new Tagged([1])), bytes);
  assert.deepEqual(decodeSigned(fromHex('81 01')), [1]);
  assert.throws(() => decode(bytes), refusedAs('encoding'));
});

const REFUSED = {
  'nothing': '',
  'something behind': '00 00',
  'a head that is cut': '19 01',
  'a byte string that is cut': '42 01',
  'a text that is cut': '61',
  'an array that is cut': '82 01',
  'a map that is cut': 'a1 01',
  'a length that nobody has': '5b001fffffffffffff 00',
  'an array of more than there is': '9b001fffffffffffff 00',
  '0 in two bytes': '1800',
  '23 in two bytes': '1817',
  '255 in three bytes': '1900ff',
  '65,535 in five bytes': '1a0000ffff',
  '2^32 - 1 in nine bytes': '1b00000000ffffffff',
  'a length in two bytes': '5801 00',
  '2^53': '1b0020000000000000',
  '2^64 - 1': '1bffffffffffffffff',
  'below -2^31': '3a80000000',
  'far below -2^31': '3bffffffffffffffff',
  'reserved 28': '1c',
  'reserved 30': '1e',
  'indefinite bytes': '5f 4100 ff',
  'indefinite text': '7f 6161 ff',
  'an indefinite array': '9f ff',
  'an indefinite map': 'bf ff',
  'a break': 'ff',
  'false': 'f4',
  'null': 'f6',
  'undefined': 'f7',
  'a simple value': 'f820',
  'half a float': 'f93c00',
  'a float': 'fa3f800000',
  'a double': 'fb3ff0000000000000',
  'tag 1': 'c1 00',
  'tag 18': 'd2 80',
  'tag 61': 'd83d d2 80',
  'a tag inside': '81 d2 80',
  'a control character': '61 1f',
  'DEL': '61 7f',
  'UTF-8': '62 c3a9',
  'a key twice': 'a2 01 00 01 00',
  'keys in another order': 'a2 02 00 01 00',
  'the order of RFC 7049': 'a2 20 00 19ffff 00',
  'a byte string as key': 'a1 4100 00',
  'an array as key': 'a1 80 00',
  'seven deep': '81 81 81 81 81 81 80',
  'a map seven deep': '81 81 81 81 81 81 a0',
};

for (const [what, hex] of Object.entries(REFUSED)) {
  test(`refused: ${what}`, () => assert.throws(() => decode(fromHex(hex)), refusedAs('encoding')));
}

for (const hex of ['d2', 'd2 d2 80', 'd812 80', 'd1 80', 'd2 81 81 81 81 81 80', 'd2 80 00']) {
  test(`refused where a signed message stands: ${hex}`, () => {
    assert.throws(() => decodeSigned(fromHex(hex)), refusedAs('encoding'));
  });
}

test('what has no encoding is not made', () => {
  for (const value of [2 ** 53, -(2 ** 31) - 1, 1.5, NaN, 'é', '\n', nested(7)]) {
    assert.throws(() => encode(value), RangeError);
  }
  for (const value of [null, undefined, true, {}, 1n, new Map([[Uint8Array.of(1), 1]]).keys()]) {
    assert.throws(() => encode(value), TypeError);
  }
});
