// keyrack-client: the client of Keyrack for Node, Deno, Bun and browsers.
export { Keyrack } from "./client.ts";
export type {
  AssignmentsApi, AvailableOptions, CarsApi, ChangesOptions, EventsApi, GetOptions, GroupsApi, MessagesOptions,
  OperationOptions, OperationsApi, OutcomeOptions, PositionedChange, ProductsApi, RequestOptions, UsersApi, WebhooksApi,
} from "./client.ts";
export {
  ApiError, InvalidSignature, KeyrackError, NoAnswer, OutcomeFailed, OutcomePending, StartOver,
} from "./errors.ts";
export { Rows } from "./rows.ts";
export type { ListOptions, Query } from "./rows.ts";
export type { Answer, CallOptions, Login, Options, WriteOptions } from "./transport.ts";
export { verify } from "./webhook.ts";
export type { ReceivedHeaders, WebhookMessage } from "./webhook.ts";
export type * from "./types.ts";
