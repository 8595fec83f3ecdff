"""OData queries: compilation, reads, `$expand`, aggregation, and other servers.

The peers (`benchmarks.peers`) are servers that a Python team would write instead, on the same data. The floor is a bare
ASGI function with handwritten SQL. Neither the floor nor the peers check key, token or customer.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import uvicorn
from tests.api.odata import evaluator as means
from tests.api.odata.evaluator import Evaluate

from benchmarks import foundation
from benchmarks.estimates import ratio
from benchmarks.floor import Floor
from benchmarks.foundation import Running, database, free_port, running, token
from benchmarks.load import Result, http, measure
from benchmarks.sizes import is_tiny, sized
from benchmarks.slices import ROUNDS, WARM_UP, Variant, alternate_servers, alternate_tasks
from benchmarks.tables import note, row, table
from keyrack.api import odata
from keyrack.api.odata import query_string
from keyrack.api.odata.filter_cache import Shapes
from keyrack.api.read_sql import Select
from keyrack.api.schema.fields import Resource
from keyrack.core.settings import Settings
from keyrack.db.session_settings import prepare, session
from keyrack.fleet.schema import CAR, EVENT
from keyrack.http.routes import ALL

CARS = sized(100_000, tiny=500)
FLEET, LARGE, SAMPLE = 1, 3, 4  # the customers with 100 cars, with 100,000, and with the cars of random filters
SAMPLES, FILTERS, SEED = (*sized((200, 100), tiny=(20, 5)), 4)
COUNT = sized(200, tiny=10)  # requests per slice
PEER_COUNT = sized(800, tiny=10)
EVENTS = sized(100_000, tiny=1_000)
FROM = sized(5_000, tiny=1_000)  # the lowest id of the query
STATEMENTS = sized(41, tiny=1)  # rounds of aggregation statements

FILL = """
update car set brand = (array['Volkswagen', 'Audi', 'Seat', null])[1 + car_id % 4],
  model = (array['Golf', 'A3', 'Leon', 'Polo', null])[1 + car_id % 5] where customer_id = 3;
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select 1, 'U' || n || kind, 'S' || n || kind, 'P' || n, kind, n
  from generate_series(1, 100) n, unnest(array['Box', 'IQ']) kind;
insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)
  select 3, n, t, '', t, n % 50, n % 2000, (array['CarOpened', 'CarClosed'])[1 + n % 2], 'bench'
  from generate_series(1, {events}) n, lateral (select '2026-01-01Z'::timestamptz + make_interval(mins => n) t) x;
insert into customer (customer_id, name) overriding system value values (4, 'Sample');
insert into manager_customer (manager_id, customer_id) values (1, 4);
insert into manager_role (manager_id, customer_id, role) values (1, 4, 'Owner');
"""

# One text of each length. `{n}` makes the text new
TEXT_BATCH, TEXT_REPEATS = sized((300, 5_000), tiny=(2, 10))  # texts per batch, and repetitions of a cached text
TEXTS = {
    "one comparison": "id eq {n}",
    "two": "brand eq 'Volkswagen' and id gt {n}",
    "functions": "contains(tolower(name),'golf') or startswith(licensePlate,'B-KR {n}')",
    "lists, null, arithmetic": (
        "brand in ('Volkswagen','Audi','Seat') and not (model eq null) and id mod 7 eq 3 and (id lt {n} or "
        "length(description) gt 20)"
    ),
    "relations": (
        "(brand eq 'Volkswagen' or brand eq 'Audi') and products/any(p:p/type eq 'vendor Box' and "
        "startswith(p/serialNumber,'S{n}')) and assignments/all(a:a/end eq null or a/end gt 2026-01-01T00:00:00Z) and "
        "not contains(toupper(concat(name,licensePlate)),'TEST') and (year(now()) ge 2026 or vin ne null)"
    ),
}

QUESTION = "brand eq 'Volkswagen' and not contains(model,'Golf') and id gt {n}"
BY_HAND = """
select coalesce(json_agg(r), '[]') from (
  select car_id as id, name, description, vin, license_plate as "licensePlate", brand, model from car
  where customer_id = $1 and brand = 'Volkswagen' and strpos(model, 'Golf') = 0 and car_id > $2
  order by name, car_id limit 10) r
"""

# Aggregations: the resource, the query, and handwritten SQL
FIGURES: dict[str, tuple[Resource, str, str]] = {
    "cars per brand": (
        CAR,
        "groupby((brand),aggregate($count as cars))",
        "select brand, count(*) as cars from car where customer_id = $1 group by brand order by brand nulls first",
    ),
    "events per car": (
        EVENT,
        "groupby((carId),aggregate($count as events))",
        'select car_id as "carId", count(*) as events from event where customer_id = $1 group by 1 order by 1',
    ),
    "events per day and type": (
        EVENT,
        "compute(date(utcDateTime) as day)/groupby((day,type),aggregate($count as events))",
        "select (utc_at at time zone 'UTC')::date as day, type, count(*) as events from event where customer_id = $1"
        " group by 1, 2 order by 1, 2",
    ),
    "events per brand of the car": (
        EVENT,
        "groupby((car/brand),aggregate($count as n))",
        "select case when c.car_id then json_build_object('brand', c.brand) end as car, n from ("
        "select c.car_id is not null as car_id, c.brand, count(*) as n from event e left join car c"
        " on c.customer_id = e.customer_id and c.car_id = e.car_id where e.customer_id = $1 group by 1, 2) c"
        " order by c.car_id, c.brand nulls first",
    ),
}
ONE_FIGURE = "cars per brand"


def by_hand(sql: str) -> str:
    return f"select coalesce(json_agg(r), '[]') from ({sql}) r"


class Answering(Floor):
    """The floor: /customer/cars/n is the query from id n, /customer/figures/0 the number of cars by brand."""

    async def read(self, customer: int, parts: list[str]) -> bytes:
        if parts[0] == "figures":
            return (await self.pool.fetchrow(by_hand(FIGURES[ONE_FIGURE][2]), customer))[0]
        return (await self.pool.fetchrow(BY_HAND, customer, int(parts[1])))[0]


def serve_floor(dsn: str, port: str) -> None:
    config = uvicorn.Config(
        Answering(dsn, Settings()), port=int(port), http="httptools", loop="uvloop", ws="none", access_log=False,
        log_level="warning", server_header=False, timeout_keep_alive=75,
    )  # fmt: skip
    uvicorn.Server(config).run()


# Compilation


def microseconds(run: Callable[[Any], object], batches: list[list[Any]]) -> float:
    """CPU time of one `run`, in the best batch, because other processes disturb the rest."""
    times: list[float] = []
    for batch in batches:
        start = time.process_time_ns()
        for item in batch:
            run(item)
        times.append((time.process_time_ns() - start) / len(batch) / 1e3)
    return min(times)


def compiling() -> None:
    """Print the table of compilation times."""
    read = next(row.read for row in ALL if row.method == "GET" and row.path == "/cars")
    assert read is not None
    select, limits = read.select, odata.Limits()

    def compiled(text: bytes) -> odata.Query:
        return odata.query(CAR, text, select.shape, alias="t", limits=limits)

    def recompiled(text: bytes) -> None:
        query_string._shapes = Shapes()  # pyright: ignore[reportPrivateUsage] - an empty cache
        compiled(text)

    table(
        "query texts", "`$filter`", "characters", "parse us", "new shape: parse, bind, compile us", "new literals us",
        "cached us", "cached, with statement us",
    )  # fmt: skip
    for name, text in TEXTS.items():
        numbers = iter(range(1000, 100_000))
        texts = [[text.format(n=next(numbers)) for _ in range(TEXT_BATCH)] for _ in range(14)]
        sent = [[b"$filter=" + quote(item).encode() for item in batch] for batch in texts]
        parsed = microseconds(lambda item: odata.parse("filter", item), texts)
        cold = microseconds(recompiled, sent[:7])
        other = microseconds(compiled, sent[7:])
        again = [[sent[-1][-1]] * TEXT_REPEATS] * 5
        cached = microseconds(compiled, again)
        whole = microseconds(lambda item: select.statement(compiled(item).sql), again)
        cells = f"{parsed:.1f}", f"{cold:.1f}", f"{other:.1f}", f"{cached:.2f}", f"{whole:.2f}"
        row(name, len(texts[0][0]), *cells)


# Reads


async def fill(dsn: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    """Insert the foundation's data, and rows for the queries.

    One customer has 100,000 cars.
    """
    headers = await foundation.load(dsn, 3, CARS + 1100)
    raw = await asyncpg.connect(dsn)
    for statement in FILL.split(";\n"):
        if statement.strip():
            await raw.execute(statement.replace("{events}", str(EVENTS)))
    columns = ["customer_id", "car_id", "name", "description", "vin", "license_plate", "brand", "model"]
    records = [(SAMPLE, *row.values()) for row in rows]
    await raw.copy_records_to_table("car", records=records, columns=columns)
    await raw.execute("vacuum analyze")
    await raw.close()
    return headers


def asked(n: int, *, recompiled: bool = False) -> str:
    """The path of the query from id `n`. `recompiled` uses an alias, which is compiled each time."""
    question = quote(QUESTION.format(n="@n" if recompiled else n))
    return f"/cars?$filter={question}&$orderby=name&$top=10" + (f"&@n={n}" if recompiled else "")


EXPAND = "/cars?$expand=products,assignments"


def answer(port: int, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Status and rows of one response. odatapy wraps its rows."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            body = json.load(reply)
            return reply.status, body["value"] if isinstance(body, dict) else body
    except urllib.error.HTTPError as error:
        error.read()
        return error.code, None


def checked(name: str, result: Result) -> Result:
    wrong = {status: n for status, n in result.statuses.items() if status >= 400}
    assert not wrong, f"{name}: {wrong}"
    return result


def beside_the_floor(keyrack: Running, floor: Running, headers: dict[str, str]) -> None:
    """Print the table of one query over 100,000 cars."""
    mine = headers | {"Customer-ID": str(LARGE)}
    status, rows = answer(keyrack.port, "/v3" + asked(FROM), mine)
    assert (status, rows) == answer(floor.port, f"/{LARGE}/cars/{FROM}", {}), "the floor answers something else"
    foundation.floor_table("query floor")
    again, new = itertools.cycle(range(1000, 1100)), itertools.count(2 * FROM)
    kinds = (
        ("100 texts in turn", again, False),
        ("each text new", new, False),
        ("each text compiled again", new, True),
    )
    for name, numbers, recompiled in kinds:
        asked_for = [*itertools.islice(numbers, (WARM_UP + ROUNDS) * COUNT)]
        ours = Variant(keyrack, [http("GET", "/v3" + asked(n, recompiled=recompiled), mine) for n in asked_for])
        theirs = Variant(floor, [http("GET", f"/{LARGE}/cars/{n}", {}) for n in asked_for])
        foundation.beside_floor(name, *alternate_servers(ours, theirs, count=COUNT))
    note(f"`$filter={QUESTION.format(n='N')}&$orderby=name&$top=10`, {len(rows)} of {CARS:,} cars.")


def expanding(keyrack: Running, headers: dict[str, str]) -> None:
    """Print the table that compares `$expand` with the calls that it replaces."""
    mine = headers | {"Customer-ID": str(FLEET)}
    _, cars = answer(keyrack.port, "/v3" + EXPAND, mine)
    assert [(len(car["products"]), len(car["assignments"])) for car in cars] == [(2, 5)] * 100
    one = [http("GET", "/v3" + EXPAND, mine)]
    paths = ["/cars", *[f"/cars/{car['id']}/{what}" for car in cars for what in ("products", "assignments")]]
    many = [http("GET", "/v3" + path, mine) for path in paths]
    measure(keyrack.pid, keyrack.port, one + many, sized(600, tiny=2))
    table(
        "query expand",
        "100 cars, their products and assignments",
        "ms, one connection",
        "ms, eight connections",
        "CPU ms",
    )
    figures: list[tuple[float, float, float]] = []
    for name, requests, times in (
        (f"`GET {EXPAND}`", one, sized(60, tiny=2)),
        (f"{len(many)} calls", many, sized(4, tiny=1)),
    ):
        count = len(requests) * times
        alone = checked(name, measure(keyrack.pid, keyrack.port, requests, count, connections=1))
        eight = checked(name, measure(keyrack.pid, keyrack.port, requests, count))
        cpu = (alone.cpu + eight.cpu) / 2 * len(requests) / 1e3
        figures.append((alone.seconds / times * 1e3, eight.seconds / times * 1e3, cpu))
        row(name, *(f"{figure:.1f}" for figure in figures[-1]))
    ratios = [many / one for one, many in zip(*figures, strict=True)]
    row("times faster", *(f"**{ratio:.1f}**" for ratio in ratios))


async def timed(raw: Any, sql: str, *args: Any) -> tuple[str, float]:
    """The rows of a statement as JSON, and its milliseconds."""
    start = time.perf_counter()
    rows = await raw.fetchval(sql, *args)
    return rows, (time.perf_counter() - start) * 1e3


async def statements(dsn: str) -> None:
    """Print the table of aggregation statements: medians of Keyrack's and handwritten ones."""
    settings = Settings()
    raw = await asyncpg.connect(dsn, server_settings=session(settings))
    await prepare(raw)
    table("query figures", f"`$apply` over {CARS:,} rows", "ms", "hand-written SQL ms", "ratio")
    for name, (resource, apply, sql) in FIGURES.items():
        plan = odata.query(
            resource, b"$apply=" + quote(apply).encode(), odata.Shape.COLLECTION, alias="t",
            limits=odata.Limits(),
        )  # fmt: skip
        ours = Select(resource).statement(plan.sql)
        bounds = {"rows": settings.list_chunk_rows * 100, "size": settings.list_chunk_bytes}
        values = ours.select({"customer": LARGE, **bounds, **plan.parameters})
        variants = functools.partial(timed, raw, ours.sql, *values), functools.partial(timed, raw, by_hand(sql), LARGE)
        results = await alternate_tasks(*variants, rounds=STATEMENTS, warm_up=0)
        groups = {len(json.loads(rows)) for of in results for rows, _ in of}
        assert len(groups) == 1, f"{name}: other groups than by hand"
        times = [[milliseconds for _, milliseconds in of] for of in results]
        row(name, *(f"{statistics.median(of):.1f}" for of in times), ratio(*times).cell())
    await raw.close()


def figures(keyrack: Running, floor: Running, headers: dict[str, str]) -> None:
    """Print the table of one aggregation over HTTP, one connection."""
    mine = headers | {"Customer-ID": str(LARGE)}
    path = "/v3/cars?$apply=" + quote(FIGURES[ONE_FIGURE][1])
    assert answer(keyrack.port, path, mine) == answer(floor.port, f"/{LARGE}/figures/0", {})
    ours = Variant(keyrack, [http("GET", path, mine)])
    theirs = Variant(floor, [http("GET", f"/{LARGE}/figures/0", {})])
    foundation.floor_table("query figures-http")
    foundation.beside_floor(ONE_FIGURE, *alternate_servers(ours, theirs, count=sized(2, tiny=1), connections=1))


# Random filters

WORDS = [
    "Golf",
    "golf GTI",
    "Polo",
    "A3",
    "ID.3",
    "e_up!",
    "50% Lease",
    "Bob's",
    "Škoda",
    "B-KR 7",
    "VW",
    "a",
    "L",
    "%",
]
TEXT_FIELDS = ["name", "description", "vin", "licensePlate", "brand", "model"]


def sample_cars(chance: random.Random) -> list[dict[str, Any]]:
    """Cars in the form of the API, with nulls in all nullable members."""

    def perhaps() -> str | None:
        return None if chance.random() < 0.3 else some()

    def some() -> str:
        return " ".join(chance.choices(WORDS, k=chance.choice((1, 1, 2))))

    return [{"id": n, "name": some(), **{field: perhaps() for field in TEXT_FIELDS[1:]}} for n in range(1, SAMPLES + 1)]


Filter = tuple[str, Evaluate]  # its text and its evaluation


class Filters:
    """A generator of random OData 4.01 conditions."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def condition(self, depth: int) -> Filter:
        if not depth:
            leaves = (self.number, self.compared, self.compared, self.nothing, self.listed, self.found, self.found)
            return self.chance.choice(leaves)()
        if self.chance.random() < 0.3:
            text, run = self.condition(depth - 1)
            return f"not ({text})", lambda env: means.negated(run(env))
        operator = self.chance.choice(("and", "or"))
        join = means.conjunction if operator == "and" else means.disjunction
        parts = [self.condition(depth - 1) for _ in range(self.chance.choice((2, 2, 3)))]
        return f" {operator} ".join(f"({text})" for text, _ in parts), lambda env: join([run(env) for _, run in parts])

    def number(self) -> Filter:
        """A comparison of the id, or of a number from id or length."""
        how = self.chance.choice(("id", "length", "add", "sub", "mul", "div", "mod"))
        n = self.chance.randint(2, 9)
        if how == "length":
            text, run = self.field()
            text, run, limit = f"length({text})", means.call("length", run), self.chance.randint(1, 12)
        else:
            run = field_of("id")
            text, limit = "id", self.chance.randint(1, SAMPLES)
            if how != "id":
                operand = run
                text, run = f"id {how} {n}", lambda env: means.arithmetic(how, operand(env), n)
                limit = {"div": limit // n, "mod": limit % n, "mul": limit * n}.get(how, limit)
        operator = self.chance.choice(("eq", "ne", "gt", "lt"))
        return f"{text} {operator} {limit}", means.compare(operator, run, means.constant(limit))

    def field(self) -> Filter:
        name = self.chance.choice(TEXT_FIELDS)
        if self.chance.random() < 0.3:
            return f"tolower({name})", means.call("tolower", field_of(name))
        return name, field_of(name)

    def word(self, text: str) -> str:
        word = self.chance.choice(WORDS)
        return word.lower() if text.startswith("tolower") else word

    def compared(self) -> Filter:
        text, run = self.field()
        word, operator = self.word(text), self.chance.choice(("eq", "ne", "gt", "lt"))
        return f"{text} {operator} {quoted(word)}", means.compare(operator, run, means.constant(word))

    def nothing(self) -> Filter:
        name, operator = self.chance.choice(TEXT_FIELDS), self.chance.choice(("eq", "ne"))
        return f"{name} {operator} null", means.compare(operator, field_of(name), means.constant(None))

    def listed(self) -> Filter:
        if self.chance.random() < 0.5:
            numbers = self.chance.sample(range(1, SAMPLES), 5)
            return f"id in ({','.join(map(str, numbers))})", means.contained(field_of("id"), numbers)
        text, run = self.field()
        words = [self.word(text) for _ in range(3)]
        return f"{text} in ({','.join(map(quoted, words))})", means.contained(run, words)

    def found(self) -> Filter:
        text, run = self.field()
        function, word = self.chance.choice(("contains", "startswith", "endswith")), self.word(text)
        return f"{function}({text},{quoted(word)})", means.call(function, run, means.constant(word))


def field_of(name: str) -> Evaluate:
    return lambda env: env[""][name]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def right_rows(rows: list[dict[str, Any]], chance: random.Random) -> dict[str, set[int]]:
    """Random filters with the ids of the matching cars: some, but not all."""
    filters = Filters(chance)
    found: dict[str, set[int]] = {}
    while len(found) < FILTERS:
        text, run = filters.condition(chance.choice((0, 1, 1, 2)))
        ids = {row["id"] for row in rows if run({"": row}) is True}
        if 0 < len(ids) < len(rows):
            found[text] = ids
    return found


def judged(port: int, base: str, headers: dict[str, str], filters: dict[str, set[int]]) -> Counter[str]:
    """Count a server's correct responses to the filters, and its other outcomes."""
    counted: Counter[str] = Counter()
    for text, ids in filters.items():
        status, rows = answer(port, f"{base}/cars?$filter={quote(text)}", headers | {"Customer-ID": str(SAMPLE)})
        if status != 200:
            verdict = "4xx" if status < 500 else "5xx"
        else:
            verdict = "right" if sorted(row["id"] for row in rows) == sorted(ids) else "wrong"
        counted[verdict] += 1
    return counted


# Peers

REQUIREMENTS = Path(__file__).parent / "peers" / "requirements.txt"
PEERS = {
    "FastAPI, SQLAlchemy 2, odata-query": ("fastapi_app", "/health"),
    "odatapy": ("odatapy_app", "/"),
}
NOT_INSTALLED = "The peers could not be installed, so they are not compared."


@contextlib.contextmanager
def environment() -> Iterator[Path | None]:
    """The Python of a virtual environment with the peers' packages. None if they cannot be installed.

    A run at tiny size skips them, because they come from a package index.
    """
    if is_tiny():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="keyrack-peers-") as directory:
        python = Path(directory) / "bin" / "python"
        try:
            venv.create(directory, with_pip=True)
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS]
            subprocess.run(install, check=True, capture_output=True, text=True, timeout=300)
        except (subprocess.SubprocessError, OSError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            print(f"\nThe peers cannot be installed: {reason if isinstance(reason, str) else error}", file=sys.stderr)
            yield None
        else:
            yield python


def measured(name: str, server: Running, base: str, headers: dict[str, str]) -> list[Result]:
    """Measure the query over 100,000 cars, and the expansion of 100 cars.

    Each query has a new text.
    """
    large, fleet = headers | {"Customer-ID": str(LARGE)}, headers | {"Customer-ID": str(FLEET)}
    questions = [http("GET", base + asked(n), large) for n in range(30_000, 30_000 + PEER_COUNT + 100)]
    expand = [http("GET", base + EXPAND, fleet)]
    measure(server.pid, server.port, questions[PEER_COUNT:], PEER_COUNT // 8)
    measure(server.pid, server.port, expand, PEER_COUNT // 80)
    return [
        checked(name, measure(server.pid, server.port, questions[:PEER_COUNT], PEER_COUNT)),
        checked(name, measure(server.pid, server.port, expand, PEER_COUNT // 10)),
    ]


def peers(keyrack: Running, dsn: str, headers: dict[str, str], filters: dict[str, set[int]]) -> None:
    """Print the tables that compare Keyrack with servers that a Python team would write."""
    large, fleet = headers | {"Customer-ID": str(LARGE)}, headers | {"Customer-ID": str(FLEET)}
    _, rows = answer(keyrack.port, "/v3" + asked(FROM), large)
    ours = measured("Keyrack", keyrack, "/v3", headers)
    speed = {"Keyrack": ours}
    verdicts = {"Keyrack": judged(keyrack.port, "/v3", headers, filters)}
    with environment() as python:
        for name, (app, path) in PEERS.items() if python else ():
            port = free_port()
            with running(["benchmarks.peers", str(python), app, dsn, str(port)], port, path, {}) as peer:
                same = [row["id"] for row in answer(port, asked(FROM), large)[1]] == [row["id"] for row in rows]
                assert same, f"{name} answers something else"
                cars = answer(port, EXPAND, fleet)[1]
                assert [(len(car["products"]), len(car["assignments"])) for car in cars] == [(2, 5)] * 100, name
                speed[name] = measured(name, peer, "", headers)
                verdicts[name] = judged(port, "", headers, filters)
    questions = {
        "peers-filter": f"`$filter`, `$orderby` and `$top` over {CARS:,} cars",
        "peers-expand": f"`GET {EXPAND}`, 100 cars",
    }
    for at, (name, question) in enumerate(questions.items()):
        table(f"query {name}", question, "requests/s", "p50 ms", "p99 ms", "CPU us", "times Keyrack's CPU")
        for server, results in speed.items():
            result, times = results[at], results[at].cpu / ours[at].cpu
            cells = f"{result.rate:,.0f}", f"{result.p50:.1f}", f"{result.p99:.1f}", f"{result.cpu:,.0f}"
            row(server, *cells, f"**{times:.1f}**")
    columns = "right rows", "wrong rows", "rejected (4xx)", "failed (5xx)"
    table("query peers-rows", f"{FILTERS} random filters", *columns)
    for name, counted in verdicts.items():
        row(name, f"**{counted['right']}**", counted["wrong"], counted["4xx"], counted["5xx"])
    if len(speed) == 1:
        note(NOT_INSTALLED)


def main() -> None:
    """Print the tables of benchmarks/results.md, "Queries"."""
    compiling()
    chance = random.Random(SEED)
    rows = sample_cars(chance)
    filters = right_rows(rows, chance)
    with database("query") as dsn:
        key = asyncio.run(fill(dsn, rows))
        port, floor_port = free_port(), free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, **foundation.UNLIMITED}
        command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
        with running(command, port, "/health", env) as keyrack:
            headers = key | {"Authorization": f"Bearer {token(port, key)}"}
            with running(["benchmarks.query", dsn, str(floor_port)], floor_port, f"/{LARGE}/cars/1", env) as floor:
                beside_the_floor(keyrack, floor, headers)
                asyncio.run(statements(dsn))
                figures(keyrack, floor, headers)
            expanding(keyrack, headers)
            peers(keyrack, dsn, headers, filters)


if __name__ == "__main__":
    serve_floor(*sys.argv[1:])
