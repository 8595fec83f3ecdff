// Lists that are read page by page.
import { KeyrackError } from "./errors.ts";
import type { CallOptions } from "./transport.ts";

/** Query parameters. A date is sent as RFC 3339. */
export type Query = Record<string, string | number | boolean | Date | undefined>;

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
}

export type Read = (path: string, query: Query, options: CallOptions) => Promise<unknown>;

const SIZE = 500;
const OPTIONS = ["filter", "search", "select", "expand", "size", "signal", "timeout"];

/** A list in the order of ids. Pages do not shift while rows are added or deleted. */
export class Rows<Row> implements AsyncIterable<Row> {
  readonly #read: Read;
  readonly #path: string;
  readonly #query: Query;
  readonly #options: ListOptions;

  constructor(read: Read, path: string, options: ListOptions = {}, query: Query = {}) {
    const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
    if (unknown !== undefined) {
      // Ignored, a misspelt filter would return every row
      throw new TypeError(`A list has no option "${unknown}". The options are ${OPTIONS.join(", ")}.`);
    }
    this.#read = read;
    this.#path = path;
    this.#options = options;
    this.#query = query;
  }

  /** Every row; one page is in memory at a time. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Row, void, undefined> {
    const size = this.#options.size ?? SIZE;
    for (let after: number | string | undefined; ; ) {
      const page = inOrder(await this.page(after, size), after);
      yield* page;
      const last = page.at(-1);
      if (last === undefined || page.length < size) return;
      after = (last as { id: number | string }).id;
    }
  }

  /** The first row, or undefined. */
  async first(): Promise<Row | undefined> {
    return (await this.page(undefined, 1))[0];
  }

  /** A page: the rows after the row with this id, or the first ones. */
  async page(after?: number | string, size: number = this.#options.size ?? SIZE): Promise<Row[]> {
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

/** The rows of a page. Throws unless their ids ascend after `last`, because the list would have no end. */
export function inOrder<Row>(page: readonly Row[], last: number | string | undefined): readonly Row[] {
  if (!Array.isArray(page)) throw new KeyrackError("The response is not a list. Is the url that of Keyrack?");
  for (const row of page as readonly unknown[]) {
    const id = (row as { id?: unknown } | null)?.id;
    const isId = typeof id === "number" || typeof id === "string";
    if (!isId || (typeof id === typeof last && id <= last!)) {
      throw new KeyrackError("The rows of the response are not in the order of their ids, after the last page.");
    }
    last = id;
  }
  return page;
}
