// A server without a network, and pauses that end at once.
import type { Options } from "../../../clients/typescript/src/index.ts";

export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Headers;
  body: string;
}

export type Respond = (seen: Seen) => Response | Error | Promise<Response | Error>;

export class FakeServer {
  readonly requests: Seen[] = [];
  tokens = 0;
  readonly #respond: Respond;

  constructor(respond: Respond) {
    this.#respond = respond;
  }

  /** Requests other than those for tokens. */
  get calls(): Seen[] {
    return this.requests.filter((seen) => seen.path !== "/oauth2/token");
  }

  readonly fetch = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(String(input));
    const body = init.body instanceof URLSearchParams ? init.body.toString() : ((init.body as string | null) ?? "");
    const path = url.pathname.replace("/v3", "");
    const seen = { method: init.method ?? "", path, query: url.searchParams, headers: new Headers(init.headers), body };
    this.requests.push(seen);
    const aborted = new Promise<never>((_, reject) => {
      init.signal?.addEventListener("abort", () => reject(init.signal?.reason));
    });
    if (seen.path === "/oauth2/token") this.tokens += 1;
    const answer = await Promise.race([this.#respond(seen), aborted]);
    if (answer instanceof Error) throw answer;
    return answer;
  };

  options(more: Partial<Options> = {}): Options {
    return {
      url: "https://keyrack.test/v3/",
      apiKey: "the key",
      customerId: 7,
      clientId: "the client",
      clientSecret: "the secret",
      fetch: this.fetch,
      ...more,
    };
  }
}

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
}

export function problem(status: number, code: string, headers: Record<string, string> = {}, more: object = {}): Response {
  const body = { type: "about:blank", title: code, status, code, detail: `It is ${code}.`, traceId: "t", ...more };
  return json(body, status, { "Content-Type": "application/problem+json", "X-Request-Id": "r 1", ...headers });
}

export const EMPTY = { status: 204 } as const;

export function granted(value: string, expiresIn: number | string = 3600): Response {
  return json({ access_token: value, expires_in: expiresIn, token_type: "Bearer" });
}

/** A server that grants tokens and answers everything else by the function. */
export function serving(respond: Respond): FakeServer {
  const server: FakeServer = new FakeServer((seen) =>
    seen.path === "/oauth2/token" ? granted(`token ${server.tokens}`) : respond(seen),
  );
  return server;
}

const LONGEST_PAUSE = 62_000; // milliseconds; longer timers are the deadlines of attempts
const ours = setTimeout;
/** The milliseconds of all pauses since the last call of `skipPauses`. */
export const pauses: number[] = [];

/** Lets the pauses of the client end at once. Deadlines of attempts with the test's long timeout never come. */
export function skipPauses(): void {
  pauses.length = 0;
  globalThis.setTimeout = ((then: () => void, milliseconds = 0, ...more: []) => {
    const isOfClient = new Error().stack?.includes("transport.") ?? false;
    if (!isOfClient || milliseconds > LONGEST_PAUSE) {
      const timer = ours(then, milliseconds, ...more);
      return isOfClient ? timer.unref() : timer;
    }
    pauses.push(milliseconds);
    return ours(then, 0);
  }) as typeof setTimeout;
}

export function restorePauses(): void {
  globalThis.setTimeout = ours;
}
