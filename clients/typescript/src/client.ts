// The client: what integrations do, and `request` for every other endpoint.
import { ApiError, KeyrackError, OutcomeFailed, OutcomePending, StartOver } from "./errors.ts";
import { inOrder, Rows } from "./rows.ts";
import type { ListOptions, Query, Read } from "./rows.ts";
import { pause, Transport } from "./transport.ts";
import type { Answer, CallOptions, Options, WriteOptions } from "./transport.ts";
import { OPERATIONS } from "./types.ts";
import type {
  Acknowledged, Acknowledgement, Assignment, AssignmentUpdate, AvailableCar, Batch, BatchResult, Car, CarOfGroup, CarUpdate, Change, Created, Event, Group,
  GroupUpdate, Installation, NewAssignment, NewCar, NewEvent, NewGroup, NewUser, NewWebhook, Operation, Operations,
  Product, ProductListed, ProductUpdate, SecretRotated, SomeUser, TestMessage, User, UserCreated, UserOfGroup, UserUpdate, WaitingMessage, Webhook,
  WebhookCreated, WebhookUpdate,
} from "./types.ts";

/** Options of `request`. */
export interface RequestOptions extends WriteOptions {
  query?: Query | undefined;
  /** Sent as JSON. */
  body?: unknown;
  /** The seconds for which the server may wait before it responds. They are added to `timeout`. */
  serverWait?: number | undefined;
  headers?: Record<string, string> | undefined;
}

/** Options of a read of one object. */
export interface GetOptions extends CallOptions {
  select?: readonly string[] | undefined;
  expand?: string | undefined;
}

/** Options of a write whose outcome comes later. */
export interface OutcomeOptions extends WriteOptions {
  /** The seconds to wait for the outcome. The default is 10; null returns the pending operation at once. */
  wait?: number | null | undefined;
}

/** Options of `cars.available`. */
export interface AvailableOptions extends ListOptions {
  /** The seconds that must be free before and after. */
  gap?: number | undefined;
  /** `any` also returns cars whose key box can take no key. The default is `ready`. */
  box?: "ready" | "any" | undefined;
}

/** Options of `webhooks.messages`. */
export interface MessagesOptions extends CallOptions {
  /** The seconds of a long poll, up to 60. */
  wait?: number | undefined;
  /** Only messages with a greater number. */
  after?: number | undefined;
  /** The number of messages, up to 500. The default is 100. */
  top?: number | undefined;
}

/** Options of `call`. */
export interface OperationOptions<Body> extends WriteOptions {
  query?: Query | undefined;
  body?: Body | undefined;
}

/** Options of `changes`. */
export interface ChangesOptions extends CallOptions {
  /** The stored position, or the number of a change. Without it, the first change is the oldest one. */
  since?: string | number | undefined;
  /** The epoch of the number, from the header `Changes-Epoch`. A position contains it. */
  epoch?: string | undefined;
  /** The seconds of a long poll, up to 60; 0 ends after the newest change. The default is 30. */
  wait?: number | undefined;
  /** The changes of one request. The default is 500. */
  size?: number | undefined;
}

/** A change, and the position after it. Store the position when the change is processed. */
export interface PositionedChange {
  change: Change;
  position: string;
}

type Id = number | string;
type OperationName = keyof Operations;
/** The operations whose answers are lists. */
type Lists = { [Name in OperationName]: Operations[Name]["answer"] extends unknown[] ? Name : never }[OperationName];
type Row<Name extends Lists> = Extract<Operations[Name]["answer"], unknown[]>[number];

const WAIT = 10; // seconds
// Each server rejects a property that it does not know, so an older one loses no property of a newer API
const STRICT = "handling=strict";
const LONGEST_WAIT = 30; // seconds of `Prefer: wait`
const FIRST_POLL = 100; // milliseconds
const LONGEST_POLL = 2000;
const SHORTEST_LONG_POLL = 1000;
const ENVIRONMENT = {
  url: "KEYRACK_URL",
  apiKey: "KEYRACK_API_KEY",
  clientId: "KEYRACK_CLIENT_ID",
  clientSecret: "KEYRACK_CLIENT_SECRET",
  customerId: "KEYRACK_CUSTOMER_ID",
} as const;

/** A client of one customer. Use one for the whole process: its calls share a token. */
export class Keyrack {
  readonly #transport: Transport;
  readonly #customerId: string | undefined;

  readonly cars: CarsApi;
  readonly users: UsersApi;
  readonly products: ProductsApi;
  readonly groups: GroupsApi;
  readonly assignments: AssignmentsApi;
  readonly operations: OperationsApi;
  readonly events: EventsApi;
  readonly webhooks: WebhooksApi;

  constructor(options: Options) {
    this.#transport = new Transport(options);
    this.#customerId = options.customerId === undefined ? undefined : String(options.customerId);
    this.cars = new CarsApi(this);
    this.users = new UsersApi(this);
    this.products = new ProductsApi(this);
    this.groups = new GroupsApi(this);
    this.operations = new OperationsApi(this);
    this.assignments = new AssignmentsApi(this, this.operations);
    this.events = new EventsApi(this);
    this.webhooks = new WebhooksApi(this);
  }

  /** A client with the credentials of `KEYRACK_URL` and the other variables. Options replace single ones. */
  static fromEnv(options: Partial<Options> = {}): Keyrack {
    const variables =
      (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    const found: Record<string, string> = {};
    const missing: string[] = [];
    const isOther = options.token !== undefined || options.login !== undefined;
    for (const [option, variable] of Object.entries(ENVIRONMENT)) {
      if (option in options || (isOther && option.startsWith("client"))) continue;
      const value = variables[variable];
      if (value) found[option] = value;
      else missing.push(variable);
    }
    if (missing.length > 0) throw new TypeError(`Set ${missing.join(", ")} in the environment.`);
    return new Keyrack({ ...(found as unknown as Options), ...options });
  }

  /**
   * Sends a request to any endpoint, such as `request("GET", "/retention")`.
   *
   * Renews the token and retries as every method does. Rejects with `ApiError` or `NoAnswer`.
   */
  async request<Body = unknown>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<Body>> {
    const { query = {}, body, key, signal, timeout, serverWait = longPoll(query) } = options;
    const pairs = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(queryText(value))}`);
    const isWrite = method !== "GET" && method !== "HEAD";
    const { status, headers, text } = await this.#transport.send({
      method,
      path: search.length > 0 ? `${path}?${search.join("&")}` : path,
      headers: {
        ...(this.#customerId === undefined ? {} : { "Customer-ID": this.#customerId }),
        ...(isWrite ? { "Idempotency-Key": key ?? randomKey() } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...options.headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      timeout,
      serverWait,
    });
    const parsed: unknown = text === "" ? undefined : isJson(headers) ? JSON.parse(text) : text;
    return { status, headers, body: parsed as Body };
  }

  /** Sends the request of an operation of the API, such as `call("getCarLocation", [carId])`. Returns its answer. */
  async call<Name extends OperationName>(
    name: Name,
    ids: Operations[Name]["ids"],
    options: OperationOptions<Operations[Name]["body"]> = {},
  ): Promise<Operations[Name]["answer"]> {
    const [method, path] = OPERATIONS[name];
    const headers: Record<string, string> = options.body === undefined ? {} : { Prefer: STRICT };
    return jsonOf(await this.request(method, filled(path, ids), { ...options, headers })) as Operations[Name]["answer"];
  }

  /** Sends up to 1,000 items of one kind in one request. See `results` for the result of each. */
  batch(batch: Batch, options: WriteOptions = {}): Promise<BatchResult> {
    return this.call("runBatch", [], { ...options, body: batch });
  }

  /** The position after the newest change, to read only later ones. */
  async newestPosition(options: CallOptions = {}): Promise<string> {
    const { headers } = await this.request("GET", "/changes", { ...options, query: { $top: 0 } });
    return positionOf(headers.get("Changes-Epoch") ?? undefined, Number(headers.get("Changes-Newest") ?? 0));
  }

  /**
   * Every change of the customer's data in order: past ones, then new ones as they happen.
   *
   * Store `position` after a change is processed, and pass it as `since` after a restart: no change is missed.
   * Rejects with `StartOver` if changes were missed, such as after a restore of the server.
   */
  async *changes(options: ChangesOptions = {}): AsyncGenerator<PositionedChange, void, undefined> {
    const { wait = 30, size = 500, signal, timeout } = options;
    let [epoch, number] = parsePosition(options.since ?? 0, options.epoch);
    for (;;) {
      const query: Query = { $filter: `id gt ${number}`, $orderby: "id", $top: size, epoch };
      if (wait > 0) query["wait"] = Math.min(60, Math.ceil(wait));
      const begin = Date.now();
      let answer: Answer<unknown>;
      try {
        answer = await this.request("GET", "/changes", { query, signal, timeout, serverWait: wait });
      } catch (error) {
        throw error instanceof ApiError && error.code === "cursor-gone" ? startOver(error) : error;
      }
      const changes = inOrder(jsonOf(answer) as Change[], number);
      epoch = answer.headers.get("Changes-Epoch") ?? epoch;
      for (const change of changes) {
        number = change.id;
        yield { change, position: positionOf(epoch, number) };
      }
      if (wait <= 0 && changes.length < size) return;
      // A server that stops ends long polls early
      if (changes.length === 0 && Date.now() - begin < SHORTEST_LONG_POLL) await pause(SHORTEST_LONG_POLL, signal);
    }
  }
}

class Resource {
  readonly #keyrack: Keyrack;

  constructor(keyrack: Keyrack) {
    this.#keyrack = keyrack;
  }

  protected rows<Name extends Lists>(name: Name, options?: ListOptions, own?: Query): Rows<Row<Name>> {
    const read: Read = async (path, query, { signal, timeout }) =>
      jsonOf(await this.#keyrack.request("GET", path, { query, signal, timeout }));
    return new Rows<Row<Name>>(read, OPERATIONS[name][1], options, own);
  }

  protected read<Name extends OperationName>(
    name: Name,
    ids: Operations[Name]["ids"],
    options: GetOptions = {},
  ): Promise<Operations[Name]["answer"]> {
    const { select, expand, signal, timeout } = options;
    return this.query(name, ids, { $select: select?.join(","), $expand: expand }, { signal, timeout });
  }

  protected query<Name extends OperationName>(
    name: Name,
    ids: Operations[Name]["ids"],
    query: Query,
    { signal, timeout }: CallOptions,
  ): Promise<Operations[Name]["answer"]> {
    return this.#keyrack.call(name, ids, { query, signal, timeout });
  }

  protected send<Name extends OperationName>(
    name: Name,
    ids: Operations[Name]["ids"],
    body: Operations[Name]["body"],
    options: WriteOptions = {},
  ): Promise<Operations[Name]["answer"]> {
    const { key, signal, timeout } = options;
    return this.#keyrack.call(name, ids, { body, key, signal, timeout });
  }

  protected request(name: OperationName, ids: readonly Id[], options: RequestOptions): Promise<Answer<unknown>> {
    const [method, path] = OPERATIONS[name];
    return this.#keyrack.request(method, filled(path, ids), options);
  }
}

class CarsApi extends Resource {
  list(options?: ListOptions): Rows<Car> {
    return this.rows("listCars", options);
  }

  /** The cars that no exclusive booking blocks from `start` to `end`. A booking is decided when it is applied. */
  available(start: Date | string, end: Date | string, options: AvailableOptions = {}): Rows<AvailableCar> {
    const { gap, box, ...list } = options;
    return this.rows("listAvailableCars", list, { from: start, to: end, gap, box });
  }

  get(id: Id, options?: GetOptions): Promise<Car> {
    return this.read("getCar", [id], options);
  }

  create(car: NewCar, options?: WriteOptions): Promise<Created> {
    return this.send("createCar", [], car, options);
  }

  /** Changes the given properties. Null removes a value. */
  update(id: Id, changes: CarUpdate, options?: WriteOptions): Promise<void> {
    return this.send("updateCar", [id], patch(changes), options);
  }

  delete(id: Id, options?: WriteOptions): Promise<void> {
    return this.send("deleteCar", [id], undefined, options);
  }
}

class UsersApi extends Resource {
  list(options?: ListOptions): Rows<User> {
    return this.rows("listUsers", options);
  }

  get(id: Id, options?: GetOptions): Promise<User> {
    return this.read("getUser", [id], options);
  }

  /** Creates a user. A generated password is only in this result. */
  create(user: NewUser, options?: WriteOptions): Promise<UserCreated> {
    return this.send("createUser", [], user, options);
  }

  /** Changes the references. Null removes a value. */
  update(id: Id, changes: UserUpdate, options?: WriteOptions): Promise<void> {
    return this.send("updateUser", [id], patch(changes), options);
  }

  /** Adds an existing person to the customer. */
  add(user: SomeUser, options?: WriteOptions): Promise<void> {
    return this.send("addUserToCustomer", [], user, options);
  }

  /** Removes a user from the customer, which ends the user's assignments. */
  remove(user: SomeUser, options?: WriteOptions): Promise<void> {
    return this.send("removeUserFromCustomer", [], user, options);
  }
}

class ProductsApi extends Resource {
  list(options?: ListOptions): Rows<ProductListed> {
    return this.rows("listProducts", options);
  }

  get(id: Id, options?: GetOptions): Promise<Product> {
    return this.read("getProduct", [id], options);
  }

  /** Changes the references. Null removes a value. */
  update(id: Id, changes: ProductUpdate, options?: WriteOptions): Promise<void> {
    return this.send("updateProduct", [id], patch(changes), options);
  }

  install(installation: Installation, options?: WriteOptions): Promise<void> {
    return this.send("installProduct", [], installation, options);
  }

  /** Uninstalls a product. For a box this ends the assignments of the car. */
  uninstall(installation: Installation, options?: WriteOptions): Promise<void> {
    return this.send("uninstallProduct", [], installation, options);
  }
}

class GroupsApi extends Resource {
  list(options?: ListOptions): Rows<Group> {
    return this.rows("listGroups", options);
  }

  get(id: Id, options?: GetOptions): Promise<Group> {
    return this.read("getGroup", [id], options);
  }

  create(group: NewGroup, options?: WriteOptions): Promise<Created> {
    return this.send("createGroup", [], group, options);
  }

  update(id: Id, changes: GroupUpdate, options?: WriteOptions): Promise<void> {
    return this.send("updateGroup", [id], patch(changes), options);
  }

  delete(id: Id, options?: WriteOptions): Promise<void> {
    return this.send("deleteGroup", [id], undefined, options);
  }

  addCar(id: Id, car: CarOfGroup, options?: WriteOptions): Promise<void> {
    return this.send("addCarToGroup", [id], car, options);
  }

  removeCar(id: Id, carId: Id, options?: WriteOptions): Promise<void> {
    return this.send("removeCarFromGroup", [id, carId], undefined, options);
  }

  addUser(id: Id, user: UserOfGroup, options?: WriteOptions): Promise<void> {
    return this.send("addUserToGroup", [id], user, options);
  }

  removeUser(id: Id, userId: Id, options?: WriteOptions): Promise<void> {
    return this.send("removeUserFromGroup", [id, userId], undefined, options);
  }
}

class AssignmentsApi extends Resource {
  readonly #operations: OperationsApi;

  constructor(keyrack: Keyrack, operations: OperationsApi) {
    super(keyrack);
    this.#operations = operations;
  }

  list(options?: ListOptions): Rows<Assignment> {
    return this.rows("listAssignments", options);
  }

  get(id: Id, options?: GetOptions): Promise<Assignment> {
    return this.read("getAssignment", [id], options);
  }

  /**
   * Lets a user open a car, and waits until that is applied.
   *
   * Rejects with `OutcomeFailed` or, after `wait` seconds, with `OutcomePending`.
   */
  create(assignment: NewAssignment, options?: OutcomeOptions): Promise<Operation> {
    return this.#submit("createAssignment", [], assignment, options);
  }

  /** Changes the given properties, and waits until that is applied. Null removes a value. */
  update(id: Id, changes: AssignmentUpdate, options?: OutcomeOptions): Promise<Operation> {
    return this.#submit("updateAssignment", [id], patch(changes), options);
  }

  /** Ends an assignment, and waits until that is applied. */
  delete(id: Id, options?: OutcomeOptions): Promise<Operation> {
    return this.#submit("deleteAssignment", [id], undefined, options);
  }

  async #submit(name: OperationName, ids: Id[], body: unknown, options: OutcomeOptions = {}): Promise<Operation> {
    const { wait = WAIT, key, signal, timeout } = options;
    const until = Date.now() + (wait ?? 0) * 1000;
    // A server that does not know `wait` answers at once, and the outcome is polled
    const answer = await this.request(name, ids, {
      body,
      key,
      signal,
      timeout,
      headers: { Prefer: `return=representation, ${STRICT}${wait ? `, wait=${waitSeconds(wait)}` : ""}` },
      serverWait: wait ?? 0,
    });
    const id = answer.headers.get("Operation-Id") ?? "";
    const shown = answer.body === undefined ? undefined : (jsonOf(answer) as Operation);
    if (wait === null) return shown ?? this.#operations.get(id, { signal, timeout });
    return this.#operations.outcome(id, wait, until, { signal, timeout }, shown);
  }
}

class OperationsApi extends Resource {
  list(options?: ListOptions): Rows<Operation> {
    return this.rows("listOperations", options);
  }

  get(id: string, options?: GetOptions): Promise<Operation> {
    return this.read("getOperation", [id], options);
  }

  /** Waits for the outcome. Rejects with `OutcomeFailed` or, after these seconds, with `OutcomePending`. */
  wait(id: string, seconds: number = WAIT, options: CallOptions = {}): Promise<Operation> {
    return this.outcome(id, seconds, Date.now() + seconds * 1000, options);
  }

  /** @internal */
  async outcome(
    id: string, wait: number, until: number, { signal, timeout }: CallOptions, known?: Operation,
  ): Promise<Operation> {
    for (let milliseconds = FIRST_POLL, operation = known; ; operation = undefined) {
      let hasWaited = false;
      if (operation === undefined) {
        const left = (until - Date.now()) / 1000;
        const headers: Record<string, string> = left >= 1 ? { Prefer: `wait=${waitSeconds(left)}` } : {};
        const serverWait = Math.max(0, left);
        const answer = await this.request("getOperation", [id], { headers, serverWait, signal, timeout });
        operation = jsonOf(answer) as Operation;
        hasWaited = /\bwait\b/.test(answer.headers.get("Preference-Applied") ?? "");
      }
      if (operation.state === "Succeeded") return operation;
      if (operation.state === "Failed") throw new OutcomeFailed(operation);
      const remaining = until - Date.now();
      if (remaining <= 0) throw new OutcomePending(id, wait);
      if (hasWaited) continue;
      await pause(Math.min(milliseconds, remaining), signal);
      milliseconds = Math.min(LONGEST_POLL, milliseconds * 1.5);
    }
  }
}

class EventsApi extends Resource {
  list(options?: ListOptions): Rows<Event> {
    return this.rows("listEvents", options);
  }

  get(id: Id, options?: GetOptions): Promise<Event> {
    return this.read("getEvent", [id], options);
  }

  create(event: NewEvent, options?: WriteOptions): Promise<Created> {
    return this.send("createEvent", [], event, options);
  }
}

class WebhooksApi extends Resource {
  list(options?: ListOptions): Rows<Webhook> {
    return this.rows("listWebhooks", options);
  }

  get(id: Id, options?: GetOptions): Promise<Webhook> {
    return this.read("getWebhook", [id], options);
  }

  /** Registers an address. The signing secret is only in this result. */
  create(webhook: NewWebhook, options?: WriteOptions): Promise<WebhookCreated> {
    return this.send("createWebhook", [], webhook, options);
  }

  update(id: Id, changes: WebhookUpdate, options?: WriteOptions): Promise<void> {
    return this.send("updateWebhook", [id], patch(changes), options);
  }

  delete(id: Id, options?: WriteOptions): Promise<void> {
    return this.send("deleteWebhook", [id], undefined, options);
  }

  /** Sends a test message to the address. Returns the id of its delivery. */
  test(id: Id, message?: TestMessage, options?: WriteOptions): Promise<Created> {
    return this.send("testWebhook", [id], message, options);
  }

  /** The waiting messages of a pull webhook. Pass `headers` and the bytes of `body` to `verify`. */
  messages(id: Id, options: MessagesOptions = {}): Promise<WaitingMessage[]> {
    const { wait, after, top, signal, timeout } = options;
    return this.query("listMessagesOfWebhook", [id], { wait, after, top }, { signal, timeout });
  }

  /** Removes the messages of a pull webhook up to a number, after they are processed. */
  acknowledge(id: Id, upto: Acknowledgement, options?: WriteOptions): Promise<Acknowledged> {
    return this.send("acknowledgeMessagesOfWebhook", [id], upto, options);
  }

  /** Replaces the signing secret. The old one stays valid for a while: pass both to `verify`. */
  rotateSecret(id: Id, options?: WriteOptions): Promise<SecretRotated> {
    return this.send("rotateWebhookSecret", [id], undefined, options);
  }
}

export type { AssignmentsApi, CarsApi, EventsApi, GroupsApi, OperationsApi, ProductsApi, UsersApi, WebhooksApi };

/** The path of an operation with encoded ids. */
function filled(path: string, ids: readonly Id[]): string {
  const left = [...ids];
  for (const id of ids) {
    if (["", ".", ".."].includes(String(id))) throw new TypeError(`${JSON.stringify(id)} is not an id.`);
  }
  const result = path.replace(/\{\w+\}/g, () => encodeURIComponent(left.shift() ?? ""));
  if (left.length > 0 || path.split("{").length - 1 !== ids.length) {
    throw new TypeError(`${path} does not have ${ids.length} ids.`);
  }
  return result;
}

/** The seconds of a long poll, for which the server may wait. */
function longPoll(query: Query): number {
  const seconds = Number(query["wait"] ?? 0);
  return seconds > 0 ? seconds : 0;
}

function queryText(value: Query[string]): string {
  return value instanceof Date ? value.toISOString() : String(value);
}

/** The JSON Patch for these properties. */
function patch<Step>(changes: object): Step[] {
  const given = Object.entries(changes).filter(([, value]) => value !== undefined) as [string, unknown][];
  return given.map(([name, value]) => {
    const path = `/${name}`;
    return (value === null ? { op: "remove", path } : { op: "replace", path, value }) as Step;
  });
}

/** The parsed body. Throws if a proxy answered with something else. */
function jsonOf({ headers, body }: Answer<unknown>): unknown {
  if (body === undefined || isJson(headers)) return body;
  const type = headers.get("Content-Type") ?? "without a type";
  throw new KeyrackError(`The response is not JSON but ${type}. Is the url that of Keyrack?`);
}

function isJson(headers: Headers): boolean {
  return /\bjson\b/.test(headers.get("Content-Type") ?? "");
}

function waitSeconds(seconds: number): number {
  return Math.min(LONGEST_WAIT, Math.max(1, Math.ceil(seconds)));
}

/** A random UUID. `crypto.randomUUID` does not exist in pages over plain HTTP. */
function randomKey(): string {
  const hex = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0"));
  return hex.join("").replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, "$1-$2-4$3-a$4-$5");
}

function parsePosition(since: string | number, epoch: string | undefined): [string | undefined, number] {
  if (typeof since === "number") return [epoch, since];
  const [, own, digits] = /^([^:]*):(\d+)$/.exec(since) ?? [];
  if (digits === undefined) {
    throw new TypeError(`since must be a position of changes, such as "EPOCH:17", and is ${JSON.stringify(since)}.`);
  }
  return [own || epoch, Number(digits)];
}

function positionOf(epoch: string | undefined, number: number): string {
  return `${epoch ?? ""}:${number}`;
}

function startOver(error: ApiError): StartOver {
  const { newest, epoch } = error.problem as { newest?: number; epoch?: string | null };
  return new StartOver(newest ?? 0, epoch ?? undefined, error);
}
