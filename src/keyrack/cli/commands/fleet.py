"""Short commands that read the API: cars, users, assignments, operations and events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, cast
from urllib.parse import quote

import typer

from keyrack.cli import api_calls, profiles
from keyrack.cli.api_calls import ForCustomer, ProfileName
from keyrack.cli.output import CommandResult, Json, ListResult, as_text, show, visible
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.session import Client
from keyrack.fleet.declarations import CARS

app = typer.Typer()

PAGE = 500  # rows of one read
POLLED = 2.0  # seconds between two polls of a server without streams, or between two streams

# Name -> heading -> member; a dot separates nested members
COLUMNS: dict[str, dict[str, str]] = {
    "cars": CARS.headings,
    "users": {
        "ID": "id", "E-MAIL ADDRESS": "emailAddress", "FIRST NAME": "userData.firstName",
        "LAST NAME": "userData.lastName",
    },
    "assignments": {"ID": "id", "CAR": "carId", "USER": "userId", "START": "start", "END": "end"},
    "operations": {
        "ID": "id", "KIND": "kind", "STATE": "state", "CAR": "carId", "USER": "userId", "REQUESTED": "requested",
        "MESSAGE": "errorMessage",
    },
    "events": {
        "ID": "id", "TIME": "utcDateTime", "TYPE": "type", "CAR": "carId", "USER": "userId", "AGENT": "userAgent",
    },
}  # fmt: skip

ORDER = {"operations": "requested desc"}  # ids of operations have no order

Which = Annotated[str | None, typer.Argument(metavar="ID", help="Show this one, with all its fields.")]
Filter = Annotated[
    str | None, typer.Option("--filter", metavar="ODATA", help="OData filter, such as \"name eq 'Pool car 7'\".")
]
OrderBy = Annotated[
    str | None,
    typer.Option(
        "--orderby", metavar="ODATA", help="Order, such as 'name desc'. Default: by id; operations: newest first."
    ),
]
Select = Annotated[
    str | None, typer.Option("--select", metavar="MEMBERS", help="Show only these fields, such as id,name.")
]
Expand = Annotated[str | None, typer.Option("--expand", metavar="RELATIONS", help="Include related resources.")]
Search = Annotated[str | None, typer.Option("--search", metavar="WORDS", help="Show only rows with these words.")]
Limit = Annotated[int, typer.Option("--limit", "--top", min=1, max=1_000_000, help="Maximum number of rows.")]


def _options(**given: str | None) -> dict[str, str]:
    """The query options that were given; `$select` always includes the id."""
    options = {f"${name}": value for name, value in given.items() if value is not None}
    if "$select" in options and "id" not in (names := [name.strip() for name in options["$select"].split(",")]):
        options["$select"] = ",".join(["id", *names])
    return options


def _noun(name: str, help: str) -> None:
    """Add the command `name`, which lists the resources at the path of that name."""

    @app.command(name, help=help)
    def run(
        id: Which = None,
        filter: Filter = None,
        search: Search = None,
        orderby: OrderBy = None,
        select: Select = None,
        expand: Expand = None,
        limit: Limit = 100,
        customer: ForCustomer = None,
        profile: ProfileName = profiles.DEFAULT,
        as_json: Json = False,
    ) -> None:
        options = _options(filter=filter, search=search, select=select, expand=expand)

        async def work() -> None:
            async with api_calls.client_of(profile, customer) as client:
                if id is not None:
                    await _show_one(client, name, id, options, as_json)
                    return
                rows, more = await _rows(client, f"/{name}", options, orderby or ORDER.get(name), limit)
            _show(name, rows, options, as_json)
            if more:
                typer.echo(f"Showing the first {limit:,}. Use --limit for more.", err=True)

        api_calls.run(work(), profile)


_noun("cars", "List the cars of the customer, or show one.")
_noun("users", "List the users of the customer, or show one.")
_noun("assignments", "List past, current and future assignments, or show one.")
_noun("operations", "List operations and their results, or show one.")


@app.command("events")
def events(
    id: Which = None,
    filter: Filter = None,
    select: Select = None,
    expand: Expand = None,
    limit: Limit = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new events until Ctrl-C.")] = False,
    customer: ForCustomer = None,
    profile: ProfileName = profiles.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show the newest events, and follow new ones with --follow. With --follow --json, each event is one line."""
    options = _options(filter=filter, select=select, expand=expand)

    async def work() -> None:
        async with api_calls.client_of(profile, customer) as client:
            if id is not None:
                await _show_one(client, "events", id, options, as_json)
            elif follow:
                await _follow(client, options, limit, as_json)
            else:
                rows, _ = await _rows(client, "/events", options, "id desc", limit)
                _show("events", rows[::-1], options, as_json)

    api_calls.run(work(), profile)


async def _rows(
    client: Client, path: str, options: Mapping[str, str], orderby: str | None, limit: int
) -> tuple[list[Any], bool]:
    """The first rows, and whether more exist. Raises `ApiError`."""
    rows: list[Any] = []
    size = min(PAGE, limit + 1)
    if orderby is None:
        async for page in client.pages(path, "id", options, size):
            rows += page
            if len(rows) > limit:
                break
    else:
        while len(rows) <= limit:
            query = {**options, "$orderby": orderby, "$top": str(size), "$skip": str(len(rows))}
            query_string = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
            page = await client.get(f"{path}?{query_string}", [])
            rows += page
            if len(page) < size:
                break
    return rows[:limit], len(rows) > limit


async def _show_one(client: Client, noun: str, id: str, options: Mapping[str, str], as_json: bool) -> None:
    query_string = "&".join(
        f"{name}={quote(options[name], safe='')}" for name in ("$select", "$expand") if name in options
    )
    value = await client.get(f"/{noun}/{quote(id, safe='')}" + f"?{query_string}" * bool(query_string))
    width = max(map(len, value), default=0)
    show(
        CommandResult(value, "\n".join(f"{name:<{width}}  {_cell_value(member)}" for name, member in value.items())),
        as_json,
    )


def _columns(noun: str, options: Mapping[str, str], rows: list[Any]) -> dict[str, str]:
    """The columns of a table: the selected and expanded members, else the most useful ones."""
    columns = COLUMNS[noun]
    if "$select" in options:
        columns = {name: name for name in options["$select"].split(",")}
    if "$expand" in options and rows:
        columns = columns | {
            name: name for name in rows[0] if name not in {*columns.values(), "userData"} and _nested(rows, name)
        }
    return columns


def _nested(rows: list[Any], name: str) -> bool:
    return any(isinstance(row.get(name), dict | list) for row in rows)


def _show(noun: str, rows: list[Any], options: Mapping[str, str], as_json: bool) -> None:
    columns = _columns(noun, options, rows)
    cells = [{member: _cell_value(_member(row, member)) for member in columns.values()} for row in rows]
    show(ListResult(rows if as_json else cells, columns), as_json)


def _member(row: Any, path: str) -> Any:
    value = row
    for name in path.replace("/", ".").split("."):
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    return value


def _cell_value(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


async def _follow(client: Client, options: dict[str, str], limit: int, as_json: bool) -> None:
    """Show the newest events, then each new event once, in the order of ids."""
    rows, _ = await _rows(client, "/events", options, "id desc", limit)
    last = 0
    for row in rows[::-1]:
        last = _tell(row, options, as_json)

    async def read() -> None:
        nonlocal last
        also = f"({options['$filter']}) and " if "$filter" in options else ""
        query = options | {"$filter": f"{also}id gt {last}"}
        async for page in client.pages("/events", "id", query, PAGE):
            for row in page:
                last = _tell(row, options, as_json)

    while True:
        try:
            async with client.stream("/live?topics=events") as lines:
                await read()  # events from before the stream started
                async for line in lines:
                    if line.startswith(b"event:"):
                        await read()
        except ApiError as error:
            if error.status is not None and error.status not in (404, 405, 429, 501, 503):
                raise
        await asyncio.sleep(POLLED)
        await read()


def _tell(row: Any, options: Mapping[str, str], as_json: bool) -> int:
    if as_json:
        typer.echo(as_text(row))
    else:
        cells = [_cell_value(_member(row, member)) for member in _columns("events", options, [row]).values()]
        typer.echo(visible("  ".join("-" if cell is None else str(cell) for cell in cells)))
    return row["id"]
