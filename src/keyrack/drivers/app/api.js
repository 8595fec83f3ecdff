/**
 * Calls of the server by the driver's session.
 */

const TIMEOUT_MS = 15_000;

/** The server rejected a call. Its texts are for developers, so pages choose theirs by `code`. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP
   * @param {{code?: string, title?: string, detail?: string}} problem
   */
  constructor(status, { code = '', title = '', detail = '' }) {
    super(detail || title || `HTTP ${status}`);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
  }
}

/** There is no network, or the server does not answer. */
export class NoNetwork extends Error {
  /** @param {unknown} cause */
  constructor(cause) {
    super('The server cannot be reached.', { cause });
    this.name = 'NoNetwork';
  }
}

/**
 * The response of an endpoint: `call('GET', '/drive/api/cars')`. It is null without a body.
 * @param {string} method
 * @param {string} path
 * @param {object | null} [body]
 * @param {{customer?: number, token?: string}} [options] `customer` is sent as `Customer-ID`, `token` as that of an app
 * @returns {Promise<any>}
 * @throws {ApiError | NoNetwork}
 */
export async function call(method, path, body = null, { customer, token } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: 'application/json, application/problem+json' };
  if (body !== null) headers['Content-Type'] = 'application/json';
  if (customer !== undefined) headers['Customer-ID'] = String(customer);
  if (token !== undefined) headers.Authorization = `Bearer ${token}`;
  const response = await request(path, {
    method,
    headers,
    body: body === null ? undefined : JSON.stringify(body),
    cache: 'no-store',
    credentials: 'same-origin',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  const text = await response.text();
  return text === '' ? null : JSON.parse(text);
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function request(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw new NoNetwork(error);
  }
}
