// The errors of the client. Each is a `KeyrackError`, except the reason of an aborted signal.
import type { AssignmentConflict, ErrorCode, Fault, Operation, OperationError, Problem } from "./types.ts";

/** The base of all errors of this package. */
export class KeyrackError extends Error {
  override name = "KeyrackError";
}

/** The server rejected the request. `code` identifies the reason and never changes its meaning. */
export class ApiError extends KeyrackError {
  override name = "ApiError";
  /** The HTTP status. */
  readonly status: number;
  /** The error code, such as `car-not-found`. Undefined if a proxy wrote the response. */
  readonly code: ErrorCode | undefined;
  /** The error message for people. It may change. */
  readonly detail: string;
  /** Each error in the request, with its place. */
  readonly errors: readonly Fault[];
  /** The overlapping bookings. */
  readonly conflicts: readonly AssignmentConflict[];
  /** The id of the conflicting resource, such as the one with the same `externalId`. */
  readonly resourceId: number | undefined;
  /** The id of the request, which the log of the server also contains. */
  readonly requestId: string | undefined;
  /** The seconds of the header `Retry-After`. */
  readonly retryAfter: number | undefined;
  /** The `Idempotency-Key` of the request. Undefined for a read. */
  readonly key: string | undefined;
  /** All properties of the response; only `detail` if it is text. */
  readonly problem: Readonly<Record<string, unknown>>;

  constructor(status: number, body: string, headers: Headers, key: string | undefined) {
    const problem = problemOf(body);
    const { code, errors } = problem as Partial<Problem>;
    const conflicts = problem["conflicts"];
    const detail = firstText(problem["detail"], problem["message"], problem["error_description"], problem["error"]);
    const faults = (Array.isArray(errors) ? errors : []).filter(isObject) as Fault[];
    const reasons = [...new Set(faults.map((fault) => fault.detail))].filter(
      (reason) => typeof reason === "string" && !detail.includes(reason),
    );
    const text = [detail.slice(0, LONGEST) || "no error message", ...reasons.slice(0, LONGEST_REASONS)].join(" ");
    super(`${status}${code ? ` ${code}` : ""}: ${text}`);
    this.status = status;
    this.code = code as ErrorCode | undefined;
    this.detail = detail;
    this.errors = faults;
    this.conflicts = Array.isArray(conflicts) ? conflicts.filter(isObject) : [];
    this.resourceId = typeof problem["id"] === "number" ? problem["id"] : undefined;
    this.requestId = headers.get("X-Request-Id") ?? undefined;
    this.retryAfter = retryAfter(headers);
    this.key = key;
    this.problem = problem;
  }
}

/** No response arrived in any attempt. The request may have been applied: repeat it with the same `key`. */
export class NoAnswer extends KeyrackError {
  override name = "NoAnswer";
  /** The `Idempotency-Key` of all attempts. Undefined for a read. */
  readonly key: string | undefined;

  constructor(what: string, attempts: number, key: string | undefined, cause: unknown) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(`${what}: no response in ${attempts} attempt${attempts === 1 ? "" : "s"}: ${reason}`, { cause });
    this.key = key;
  }
}

/** The operation was accepted, and failed when it was applied. */
export class OutcomeFailed extends KeyrackError {
  override name = "OutcomeFailed";
  readonly operation: Operation;
  /** The error code of the operation, such as `no-key-box`. */
  readonly code: OperationError | null;
  /** The error message for people. It may change. */
  readonly detail: string;

  constructor(operation: Operation) {
    super(`${operation.errorCode ?? "failed"}: ${operation.errorMessage ?? "The operation failed."}`);
    this.operation = operation;
    this.code = operation.errorCode;
    this.detail = operation.errorMessage ?? "";
  }
}

/** The operation was accepted, and has no outcome yet. `operations.wait(error.operationId)` continues the wait. */
export class OutcomePending extends KeyrackError {
  override name = "OutcomePending";
  readonly operationId: string;

  constructor(operationId: string, seconds: number) {
    super(`Operation ${operationId} is still pending after ${seconds} s.`);
    this.operationId = operationId;
  }
}

/** Changes were missed. Read all data again that you keep a copy of, then continue from `position`. */
export class StartOver extends KeyrackError {
  override name = "StartOver";
  /** The position of the newest change, for `changes({ since: position })`. */
  readonly position: string;
  readonly newest: number;
  readonly epoch: string | undefined;

  constructor(newest: number, epoch: string | undefined, cause: ApiError) {
    super(`Changes before number ${newest} were missed. Read all data again.`, { cause });
    this.position = `${epoch ?? ""}:${newest}`;
    this.newest = newest;
    this.epoch = epoch;
  }
}

/** The message is not from Keyrack, is too old, or was changed on its way. */
export class InvalidSignature extends KeyrackError {
  override name = "InvalidSignature";
}

const LONGEST = 300; // characters of a message
const LONGEST_REASONS = 5; // reasons in a message

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

/** The seconds of `Retry-After`, which is a number or a date. */
export function retryAfter(headers: Headers): number | undefined {
  const text = headers.get("Retry-After");
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

function problemOf(text: string): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  } catch {
    // a text
  }
  return { detail: text };
}

function firstText(...values: unknown[]): string {
  return (values.find((value) => typeof value === "string" && value !== "") as string | undefined) ?? "";
}
