/** The texts of rejections: each code has a title and a remedy, in both languages. */

import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import { knownCodes, rejectionText } from '../rejections.js';
import { ENGLISH, setLanguage } from '../texts.js';
import { GERMAN } from '../texts-de.js';

afterEach(() => setLanguage(null));

for (const [language, texts] of [['en', ENGLISH], ['de', GERMAN]]) {
  test(`every code has a title and a remedy in ${language}`, () => {
    setLanguage(language);
    const values = new Set(Object.values(texts));
    for (const code of knownCodes()) {
      const { title, help } = rejectionText({ code, status: 400 });
      assert.ok(values.has(title) && values.has(help), code);
      assert.notEqual(title, help);
    }
  });
}

test('no code has two texts', () => {
  const codes = knownCodes();
  assert.equal(new Set(codes).size, codes.length);
});

test('an unknown code has a remedy, too', () => {
  setLanguage('en');
  assert.deepEqual(rejectionText({ code: 'of-tomorrow', status: 503 }), {
    title: ENGLISH['error.unknown'], help: ENGLISH['rejection.fault'],
  });
  assert.equal(rejectionText({ code: 'of-tomorrow', status: 409 }).help, ENGLISH['rejection.app.help']);
});
