/**
 * Functions for bytes that JavaScript lacks: comparison, base64url, SHA-256.
 */

/**
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 * @returns {number} negative, 0 or positive: the order of the two, byte by byte
 */
export function compare(one, other) {
  const shorter = Math.min(one.length, other.length);
  for (let i = 0; i < shorter; i += 1) {
    if (one[i] !== other[i]) return one[i] - other[i];
  }
  return one.length - other.length;
}

/**
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
export function equal(one, other) {
  return compare(one, other) === 0;
}

/**
 * @param {Uint8Array} bytes
 * @returns {string} base64url (RFC 4648, section 5) without padding
 */
export function toBase64url(bytes) {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/**
 * @param {string} text base64url without padding
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function fromBase64url(text) {
  if (!/^[\w-]*$/.test(text)) throw new TypeError('This is not base64url without padding.');
  const plain = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
}
