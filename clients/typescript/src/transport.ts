// Requests with retries and access tokens. Nothing here knows a resource.
import { ApiError, KeyrackError, NoAnswer } from "./errors.ts";

export const VERSION = "0.1.0";

/** A manager's username and password, for the grant of the spec. */
export interface Login {
  username: string;
  password: string;
}

/** The server and the credentials of a client. */
export interface Options {
  /** The base of the API, such as `https://keyrack.example.com/v3`. */
  url: string;
  /** The API key of the integration. */
  apiKey?: string;
  /** The id of the customer. Some requests, such as `GET /customers`, need none. */
  customerId?: number | string;
  /** The id of the machine client. */
  clientId?: string;
  /** The secret of the machine client. Not allowed in a browser. */
  clientSecret?: string;
  /** Returns an access token, for browsers. It is called again when the server no longer accepts the token. */
  token?: () => Promise<string>;
  /** A manager's password. Only for programs that must use the grant of the spec; not allowed in a browser. */
  login?: Login;
  /** The brand of the server, which names the header of the API key. The default is `vendor`. */
  brand?: string;
  /** How often a request is sent at most. The default is 5. */
  attempts?: number;
  /** The seconds for one attempt. The default is 30. */
  timeout?: number;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call. The promise rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** The seconds for one attempt. */
  timeout?: number | undefined;
}

/** Options of every write. */
export interface WriteOptions extends CallOptions {
  /** The `Idempotency-Key`: a write with the same key is applied once. A random one by default. */
  key?: string | undefined;
}

/** A response: the status, the headers, and the parsed body. */
export interface Answer<Body> {
  status: number;
  headers: Headers;
  /** Undefined without a body. */
  body: Body;
}

export interface Sending extends CallOptions {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string | URLSearchParams | undefined;
  serverWait?: number; // seconds
}

interface Received {
  status: number;
  headers: Headers;
  text: string;
}

interface Token {
  value: string;
  renewAt: number; // milliseconds
}

const ATTEMPTS = 5;
const SIGN_IN_ATTEMPTS = 3; // the token endpoint limits failed attempts
const TIMEOUT = 30; // seconds
const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);
const LONGEST_RETRY_AFTER = 60; // seconds; a longer one is an error, so that the caller decides
const LONGEST_BODY = 64 * 1024 * 1024; // bytes of a response, after its decompression
const FIRST_PAUSE = 500; // milliseconds
const LONGEST_PAUSE = 8000;
const EARLY = 30; // seconds before its end in which a token is renewed
const SECRETS_IN_BROWSER =
  "A browser must not have clientSecret or login: everyone who opens the page can read them. " +
  "Use token: () => Promise<string>, which gets an access token from your own server.";

/** Whether this runs in a page, in a worker of one, or in React Native, whose programs everyone can read. */
function isBrowser(): boolean {
  const here: { userAgent?: string; product?: string } | undefined = globalThis.navigator;
  return here?.product === "ReactNative" || /^Mozilla\//.test(here?.userAgent ?? "");
}

/** A response that is not read to its end. A repetition would not help. */
class TooLarge extends KeyrackError {}

/** Sends requests, repeats them if that is safe, and renews the token. */
export class Transport {
  readonly #url: string;
  readonly #options: Options;
  readonly #headers: Record<string, string>;
  #token: Token | undefined;
  #renewal: Promise<Token> | undefined;

  constructor(options: Options) {
    const ways = [options.token, options.clientSecret, options.login].filter((way) => way !== undefined).length;
    if (isBrowser() && (options.clientSecret !== undefined || options.login !== undefined)) {
      throw new TypeError(SECRETS_IN_BROWSER);
    }
    if (ways !== 1 || (options.clientSecret === undefined) !== (options.clientId === undefined)) {
      throw new TypeError("Exactly one is needed: clientId with clientSecret, token, or login.");
    }
    if (!/^https?:\/\/./.test(options.url)) {
      throw new TypeError(`url is ${JSON.stringify(options.url)}. It must begin with http:// or https://.`);
    }
    if (/[^ -~]/.test(options.apiKey ?? "")) {
      throw new TypeError("apiKey has a line break or a character that a header cannot have.");
    }
    if (options.attempts !== undefined && !(options.attempts >= 1)) throw new TypeError("attempts must be at least 1.");
    this.#url = options.url.replace(/\/+$/, "");
    this.#options = { ...options };
    this.#headers = {
      Accept: "application/json, application/problem+json",
      ...(isBrowser() ? {} : { "User-Agent": `keyrack-client-typescript/${VERSION}` }),
      ...(options.apiKey === undefined ? {} : { [`${options.brand ?? "vendor"}-API-Key`]: options.apiKey }),
    };
  }

  /** Sends with a token. If the server does not accept it any more, sends once more with a new one. */
  async send(sending: Sending): Promise<Received> {
    for (let isRenewed = false; ; isRenewed = true) {
      const token = await this.#currentToken(sending.signal);
      const headers = { ...sending.headers, Authorization: `Bearer ${token}` };
      try {
        return await this.#repeat({ ...sending, headers });
      } catch (error) {
        if (isRenewed || !(error instanceof ApiError) || error.status !== 401) throw error;
        // Without a code it is a text, which does not say whether the token is meant
        if (error.code !== "invalid-token" && error.code !== undefined) throw error;
        // Another call may have renewed it meanwhile
        if (this.#token?.value === token) this.#token = undefined;
      }
    }
  }

  /** The current token. All calls that need a new one wait for the same renewal. */
  async #currentToken(signal: AbortSignal | undefined): Promise<string> {
    signal?.throwIfAborted();
    if (this.#token !== undefined && Date.now() < this.#token.renewAt) return this.#token.value;
    this.#renewal ??= this.#newToken().then(
      (token) => {
        this.#token = token;
        this.#renewal = undefined;
        return token;
      },
      (error: unknown) => {
        this.#renewal = undefined;
        throw error;
      },
    );
    return (await orAborted(this.#renewal, signal)).value;
  }

  async #newToken(): Promise<Token> {
    const { token, clientId = "", clientSecret = "", login } = this.#options;
    if (token !== undefined) return { value: await token(), renewAt: Infinity };
    const body = new URLSearchParams(
      login === undefined
        ? { grant_type: "client_credentials", client_id: clientId, client_secret: clientSecret }
        : { grant_type: "password", username: login.username, password: login.password },
    );
    const { text } = await this.#repeat({ method: "POST", path: "/oauth2/token", headers: {}, body }, SIGN_IN_ATTEMPTS);
    const granted = parseJson(text) as { access_token?: string; expires_in?: number | string } | undefined;
    const seconds = Number(granted?.expires_in);
    // The error of a header that is not valid would show the token
    if (typeof granted?.access_token !== "string" || Number.isNaN(seconds) || /[^ -~]/.test(granted.access_token)) {
      throw new KeyrackError("The token endpoint did not return a token. Is the url that of Keyrack?");
    }
    return { value: granted.access_token, renewAt: Date.now() + Math.max(seconds - EARLY, seconds / 2) * 1000 };
  }

  /**
   * Sends until there is a final response.
   *
   * An answer with `Retry-After` is no failed attempt, but all these pauses together are at most `LONGEST_RETRY_AFTER`.
   */
  async #repeat(sending: Sending, most = Infinity): Promise<Received> {
    const attempts = Math.min(most, this.#options.attempts ?? ATTEMPTS);
    const { method, path, signal } = sending;
    const headers = new Headers({ ...this.#headers, ...sending.headers });
    const key = headers.get("Idempotency-Key") ?? undefined;
    let paused = 0;
    for (let attempt = 1; ; ) {
      signal?.throwIfAborted();
      let milliseconds = backOff(attempt);
      let received: Received | undefined;
      try {
        received = await this.#once(sending, headers);
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof TooLarge) throw error;
        if (attempt >= attempts) throw new NoAnswer(`${method} ${path}`, attempts, key, error);
      }
      if (received === undefined) {
        attempt += 1;
      } else {
        const { status } = received;
        if ((status >= 200 && status < 300) || status === 304) return received;
        const error = new ApiError(status, redirection(received) ?? received.text, received.headers, key);
        const seconds = error.retryAfter;
        const isRetryable = RETRIED.has(status) || (status === 409 && seconds !== undefined);
        if (!isRetryable || (seconds ?? 0) > LONGEST_RETRY_AFTER) throw error;
        if (seconds === undefined) {
          attempt += 1;
        } else {
          paused += Math.max(1, seconds);
          milliseconds = seconds * 1000 * (1 + Math.random() / 10); // never less, so that Retry-After is obeyed
        }
        if (attempt > attempts || attempts === 1 || paused > LONGEST_RETRY_AFTER) throw error;
      }
      await pause(milliseconds, signal);
    }
  }

  async #once(sending: Sending, headers: Headers): Promise<Received> {
    const { signal } = sending;
    const seconds = (sending.timeout ?? this.#options.timeout ?? TIMEOUT) + (sending.serverWait ?? 0);
    const controller = new AbortController();
    const abort = (): void => controller.abort(signal?.reason);
    const timer = setTimeout(() => controller.abort(new Error(`no response after ${seconds} s`)), seconds * 1000);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const response = await (this.#options.fetch ?? fetch)(this.#url + sending.path, {
        method: sending.method,
        headers,
        body: sending.body ?? null,
        redirect: "manual", // to another origin, fetch would send the API key along
        signal: controller.signal,
      });
      return { status: response.status, headers: response.headers, text: await textOf(response, controller) };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

/** The text of a response. Throws if it is too large, and ends the request. */
async function textOf(response: Response, controller: AbortController): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return response.text();
  const decoder = new TextDecoder();
  let text = "";
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > LONGEST_BODY) {
      controller.abort();
      throw new TooLarge(`The response is larger than ${LONGEST_BODY} bytes.`);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The parsed text. Undefined if it is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The error message for a redirection, which is not followed. A browser hides its status. */
function redirection({ status, headers }: Received): string | undefined {
  if (status !== 0 && !(status >= 300 && status < 400)) return undefined;
  const to = headers.get("Location");
  return `The server redirects${to === null ? "" : ` to ${to}`}. Correct the url of the client.`;
}

/** Milliseconds to wait after an attempt without `Retry-After`. */
function backOff(attempt: number): number {
  return Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
}

/** Waits, unless the signal ends it. */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** The result of a promise that other calls share, unless the signal of this call comes first. */
function orAborted<Result>(shared: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) return shared;
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    const abort = (): void => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    shared.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
