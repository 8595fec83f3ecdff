/** The curve P-256 (SEC 2, section 2.4.2): y² = x³ - 3x + b modulo p, with n points. */

const P = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffffn;
const B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;
const N = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const COORDINATE_SIZE = 32;

/**
 * Whether two coordinates, big-endian, are less than p and a point of the curve. For public keys only: the time that it
 * takes depends on the values.
 * @param {Uint8Array} x
 * @param {Uint8Array} y
 */
export function isPoint(x, y) {
  const [left, right] = [toInteger(x), toInteger(y)];
  return left < P && right < P && (left ** 3n - 3n * left + B - right ** 2n) % P === 0n;
}

/**
 * The signature with the lower one of s and n - s, which are both valid. An s that is no scalar is unchanged.
 * @param {Uint8Array<ArrayBuffer>} signature r and s
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function withLowS(signature) {
  const s = toInteger(signature.subarray(COORDINATE_SIZE));
  if (2n * s < N || s >= N) return signature;
  const low = (N - s).toString(16).padStart(2 * COORDINATE_SIZE, '0').match(/../g) ?? [];
  return Uint8Array.of(...signature.subarray(0, COORDINATE_SIZE), ...low.map((byte) => parseInt(byte, 16)));
}

/** @param {Uint8Array} bytes */
function toInteger(bytes) {
  return bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
}
