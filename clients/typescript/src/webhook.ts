// Verification of webhooks (Standard Webhooks), with WebCrypto.
import { InvalidSignature } from "./errors.ts";
import type { ChangeTold, Outcome } from "./types.ts";

/** The body of a genuine webhook. */
export type WebhookMessage = Outcome | ChangeTold;

/** The headers of a request: of `fetch`, or of Node. */
export type ReceivedHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

const TOLERANCE = 300; // seconds between the clocks of sender and receiver
const BYTES_NEEDED =
  "verify needs the bytes of the body as they arrived (Uint8Array or ArrayBuffer): " +
  "the signature covers these bytes, and JSON that was parsed and written again has others. It got ";

/**
 * Verifies a webhook and returns its parsed body.
 *
 * Several secrets are for the time of a rotation: one of them must have signed the message.
 * Rejects with `InvalidSignature`, or with `TypeError` if the body is not bytes.
 */
export async function verify<Message = WebhookMessage>(
  headers: ReceivedHeaders,
  body: Uint8Array | ArrayBuffer,
  ...secrets: string[]
): Promise<Message> {
  const bytes = body instanceof ArrayBuffer ? new Uint8Array(body) : body;
  if (!(bytes instanceof Uint8Array)) throw new TypeError(BYTES_NEEDED + describe(body));
  if (secrets.length === 0) throw new TypeError("verify needs the signing secret of the webhook.");
  const keys = await Promise.all(secrets.map(signingKey));

  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  if (!id || !timestamp || !signatures) {
    throw new InvalidSignature("webhook-id, webhook-timestamp or webhook-signature is missing.");
  }
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) {
    throw new InvalidSignature(`webhook-timestamp is more than ${TOLERANCE} seconds away from now, or no number.`);
  }
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  for (const given of signatures.split(" ")) {
    const signature = given.startsWith("v1,") ? fromBase64(given.slice(3)) : undefined;
    if (signature === undefined) continue;
    for (const key of keys) {
      if (await crypto.subtle.verify("HMAC", key, signature, signed)) {
        return JSON.parse(new TextDecoder().decode(bytes)) as Message;
      }
    }
  }
  throw new InvalidSignature("No signature of the message is by one of the secrets.");
}

function signingKey(secret: string): Promise<CryptoKey> {
  const bytes = typeof secret === "string" ? fromBase64(secret.replace(/^whsec_/, "")) : undefined;
  if (bytes === undefined || bytes.length === 0) throw new TypeError("A signing secret is whsec_ and base64.");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function header(headers: ReceivedHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const found = Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1];
  return typeof found === "string" ? found : found?.[0];
}

function describe(value: unknown): string {
  if (value === null) return "null.";
  return typeof value === "object" ? `an object (${value.constructor?.name ?? "parsed JSON"}).` : `a ${typeof value}.`;
}
