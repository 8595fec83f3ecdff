// Verifies signed messages with a third-party library, @auth0/cose.
//
// Standard input: {"messages": [{"message": base64url, "key": a COSE_Key as base64url}]}. Output: an array with the
// result of each, {"verified": true, "kid": hexadecimal, "typ": text, "members": of the payload} or {"verified": false}.

import { readFileSync } from 'node:fs';

import { COSEKey, Headers, Sign1 } from '@auth0/cose';
import { Decoder } from 'cbor-x';

const TYP = 16; // RFC 9596
const decoder = new Decoder({ mapsAsObjects: false });

async function judge({ message, key }) {
  const signed = Sign1.decode(Buffer.from(message, 'base64url'));
  const publicKey = COSEKey.import(Buffer.from(key, 'base64url'));
  try {
    await signed.verify(await publicKey.toKeyLike(), { algorithms: [-7] });
  } catch {
    return { verified: false };
  }
  const { protectedHeaders } = signed;
  return {
    verified: true,
    kid: Buffer.from(protectedHeaders.get(Headers.KeyID)).toString('hex'),
    typ: protectedHeaders.get(TYP),
    members: [...decoder.decode(signed.payload).keys()],
  };
}

const { messages } = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(await Promise.all(messages.map(judge))));
