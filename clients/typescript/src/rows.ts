// Lists that are read page by page.
import type { CallOptions } from "./transport.ts";

export type Query = Record<string, string | number | boolean | undefined>;

/** The rows to read. Texts are those of OData. */
export interface ListOptions extends CallOptions {
  /** The condition, such as `name eq 'Golf'`. Inside quotes, write a quote twice. */
  filter?: string | undefined;
  /** Words that the rows contain. */
  search?: string | undefined;
  /** The properties to return. `id` is always returned. */
  select?: readonly string[] | undefined;
  /** The related objects to return, such as `products`. */
  expand?: string | undefined;
  /** The rows of one request. The default is 500. */
  size?: number | undefined;
  /** Begin after the row with this id. */
  after?: number | undefined;
}

export type Read = (path: string, query: Query, options: CallOptions) => Promise<unknown>;

const SIZE = 500;

/** A list in the order of ids. Pages do not shift while rows are added or deleted. */
export class Rows<Row> implements AsyncIterable<Row> {
  readonly #read: Read;
  readonly #path: string;
  readonly #query: Query;
  readonly #options: ListOptions;

  constructor(read: Read, path: string, options: ListOptions = {}, query: Query = {}) {
    this.#read = read;
    this.#path = path;
    this.#options = options;
    this.#query = query;
  }

  /** Every row; one page is in memory at a time. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void, undefined> {
    const size = this.#options.size ?? SIZE;
    let after = this.#options.after;
    for (;;) {
      const page = await this.#page(size, after);
      yield* page;
      const last = page.at(-1);
      if (last === undefined || page.length < size) return;
      after = (last as { id: number }).id;
    }
  }

  /** The first row, or undefined. */
  async first(): Promise<Row | undefined> {
    return (await this.#page(1, this.#options.after))[0];
  }

  /** The first page: at most `size` rows. The id of its last row is the `after` of the next page. */
  page(): Promise<Row[]> {
    return this.#page(this.#options.size ?? SIZE, this.#options.after);
  }

  async #page(size: number, after: number | undefined): Promise<Row[]> {
    const { filter, search, select, expand } = this.#options;
    const cursor = after === undefined ? undefined : `id gt ${after}`;
    const query: Query = {
      ...this.#query,
      $filter: filter === undefined || cursor === undefined ? (filter ?? cursor) : `(${filter}) and ${cursor}`,
      $select: select === undefined ? undefined : [...new Set(["id", ...select])].join(","),
      $expand: expand,
      $search: search,
      $orderby: "id",
      $top: size,
    };
    return (await this.#read(this.#path, query, this.#options)) as Row[];
  }
}
