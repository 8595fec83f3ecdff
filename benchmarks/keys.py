"""Offline keys: issuing, repeated fetches without changes, and the size of status lists.

The floor of issuing is signing the same messages in a loop. The floor of a fetch is the read of one car by a manager.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from urllib.request import Request, urlopen

import asyncpg

from benchmarks import ACTOR
from benchmarks.estimates import ratio
from benchmarks.foundation import database, load, serving
from benchmarks.load import Result, cpu_since, cpu_times, http, measure, typical
from benchmarks.recording import family, server_of
from benchmarks.sizes import sized
from benchmarks.slices import Variant, alternate_servers
from benchmarks.tables import row, table
from keyrack.core.base64url import base64url
from keyrack.core.secret_hashes import digest
from keyrack.offline_keys import cose, status_list_bits
from keyrack.offline_keys.message_fields import KEY, STATUS_LIST, Status
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.status_list_bits import ENTRIES

CUSTOMER, BOXES, FIRST_CAR = 2, 500, 101
FEW, MANY = sized((3_000, 200), tiny=(30, 4))  # users with one assignment, and with `EACH` of them
WARM = sized(500, tiny=5)  # of the few; they warm up the statements' plans, and as many others ask one by one
EACH = 20
REQUESTS = sized(200, tiny=20)  # per slice
SIGNED = sized(2_000, tiny=20)  # signatures in a loop
SDK_KEY = "benchmark"
FILL = """
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select customer_id, 'U' || car_id, 'S' || car_id, 'P' || car_id, 'Box', car_id from car
  where customer_id = {customer} order by car_id limit {boxes};
insert into service (customer_id, name, product_id) select customer_id, 'Service', product_id from product
  where customer_id = {customer};
insert into sdk_key (customer_id, hash) values ({customer}, decode('{hash}', 'hex'));
insert into person (email_address, first_name, last_name, type)
  select 'driver' || n || '@example.org', 'Driver', n::text, 'Normal' from generate_series(1, {users}) n;
insert into customer_user (customer_id, user_id)
  select {customer}, user_id from person where email_address like 'driver%';
insert into assignment (customer_id, car_id, user_id, starts_at, lifetime)
  select {customer}, p.car_id, d.user_id, now() - interval '1 day', 604800
  from (select user_id, row_number() over (order by user_id) as n from person where email_address like 'driver%') d
  cross join lateral generate_series(1, case when d.n <= {few} then 1 else {each} end) k
  join (select car_id, row_number() over (order by product_id) - 1 as n from product where customer_id = {customer}) p
    on p.n = (d.n * 7 + k * 13) % {boxes}
"""
ENROL = """
insert into box_epoch (customer_id, product_id, epoch, public_key) select customer_id, product_id, 1, $2
  from product where customer_id = $1 and kind = 'Box' on conflict do nothing
"""
LISTS = """
insert into status_generation (customer_id, product_id, epoch, generation, uri)
select customer_id, product_id, 1, 1,
  'https://keyrack.example/v3/boxes/' || product_id || '/status?epoch=1&generation=1'
from box_epoch where customer_id = $1 on conflict do nothing
"""
DEVICES = """
with d as (insert into app_device (customer_id, device_id, user_id, public_key, name, protection)
  select $1, u.device_id, u.user_id, u.public_key, 'Phone', 'Software'
  from unnest($2::bytea[], $3::bytea[], $4::integer[]) u (public_key, device_id, user_id)),
s as (insert into app_subject (customer_id, subject, user_id)
  select $1, subject_at($1, seed), user_id from person where user_id = any($4))
select 1
"""


async def prepare(dsn: str) -> list[tuple[int, bytes]]:
    """Make boxes, users, assignments and phones. Returns each user with the phone's thumbprint."""
    raw = await asyncpg.connect(dsn)
    await raw.execute("select set_config('keyrack.who', $1, false)", ACTOR)
    values = {
        "customer": CUSTOMER, "boxes": BOXES, "users": FEW + MANY, "few": FEW, "each": EACH,
        "hash": digest(SDK_KEY).hex(),
    }  # fmt: skip
    for statement in FILL.strip().split(";\n"):
        await raw.execute(statement.format(**values))
    rows = await raw.fetch("select user_id from person where email_address like 'driver%' order by user_id")
    keys = [PrivateKey.generate().public for _ in rows]  # these phones sign nothing
    phones = [(row["user_id"], key.thumbprint) for row, key in zip(rows, keys, strict=True)]
    columns = [key.x + key.y for key in keys], [device for _, device in phones], [user for user, _ in phones]
    await raw.fetch(DEVICES, CUSTOMER, *columns)
    await raw.close()
    return phones


async def enrol(dsn: str) -> None:
    """Enrol all boxes with one key, because none of them opens anything here."""
    raw = await asyncpg.connect(dsn)
    await raw.execute("select set_config('keyrack.who', $1, false)", ACTOR)
    key = PrivateKey.generate().public
    await raw.execute(ENROL, CUSTOMER, key.x + key.y)
    await raw.execute(LISTS, CUSTOMER)
    await raw.execute("vacuum analyze")
    await raw.close()


async def analyze(dsn: str) -> None:
    """Run `vacuum analyze`, because the planner has not seen any key.

    Autovacuum does it within a minute.
    """
    raw = await asyncpg.connect(dsn)
    await raw.execute("vacuum analyze")
    await raw.close()


def call(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
    request = Request(f"http://127.0.0.1:{port}/v3{path}", body, headers, method=method)
    with urlopen(request) as answer:
        return answer.read()


def fetches(port: int, signed_in: dict[str, str], phones: list[tuple[int, bytes]]) -> list[bytes]:
    """The request of each phone for its keys."""
    found: list[bytes] = []
    headers = signed_in | {"Content-Type": "application/json"}
    for user, device in phones:
        body = b'{"customerId": %d, "sdkKey": "%s", "userId": %d}' % (CUSTOMER, SDK_KEY.encode(), user)
        id_token = json.loads(call(port, "POST", "/sdk/token", headers, body))["id_token"]
        path = f"/v3/sdk/keys?device={base64url(device)}"
        found.append(http("GET", path, {"Authorization": f"Bearer {id_token}"}))
    return found


def floor() -> float:
    """Keys signed per second in a loop."""
    key, phone = PrivateKey.generate(), PrivateKey.generate().public
    claims = {
        "iss": "customer:2", "sub": "0" * 36, "aud": "box:1041:3", "exp": 1_800_604_800, "nbf": 1_800_000_000,
        "iat": 1_800_000_000, "cti": bytes(16), "cnf": phone,
        "status": Status(7, "https://keyrack.example/v3/boxes/1041/status?epoch=1&generation=1"), "assignment": 77,
        "rights": [1, 2], "limit": 604_800,
    }  # fmt: skip
    kid, count, begun = key.public.kid, SIGNED, time.perf_counter()
    for _ in range(count):
        cose.sign(KEY, kid, claims, key.sign)
    return count / (time.perf_counter() - begun)


def sizes() -> None:
    """Print the bytes of a signed status list by the share of revoked keys."""
    key = PrivateKey.generate()
    table("keys sizes", f"revoked of {ENTRIES:,} keys", "signed status list, bytes")
    for percent in (0, 1, 5, 10):
        chance = random.Random(percent)
        bits = bytearray(ENTRIES // 8)
        for place in chance.sample(range(ENTRIES), ENTRIES * percent // 100):
            bits[place // 8] |= 1 << place % 8
        claims = {
            "iss": "customer:7", "sub": "https://keyrack.example.com/v3/boxes/1041/status?epoch=3&generation=1",
            "aud": "box:1041:3", "exp": 1_800_000_000, "iat": 1_790_000_000,
            "status_list": status_list_bits.pack(bytes(bits)), "ttl": 300, "generation": 1,
        }  # fmt: skip
        row(f"{percent} %", len(cose.sign(STATUS_LIST, key.public.kid, claims, key.sign)))


def told(name: str, result: Result, keys: int, database: float) -> None:
    rate = result.rate * keys
    cpu = result.cpu / keys
    row(name, f"{rate:,.0f}", f"{cpu:,.0f} + {database / result.requests / keys * 1e6:,.0f}")


def main() -> None:
    """Print the tables of benchmarks/results.md, "Offline keys"."""
    sizes()
    signing = floor()
    with database("keys") as dsn:
        key = asyncio.run(load(dsn, 2, 1_100))
        phones = asyncio.run(prepare(dsn))
        with serving(dsn, key) as (keyrack, signed_in):
            port = keyrack.port
            signed_in = signed_in | {"Customer-ID": str(CUSTOMER)}
            first = json.loads(call(port, "GET", "/products?$top=1", signed_in))[0]["id"]
            call(port, "POST", f"/boxes/{first}/enrolment", signed_in, b"")
            asyncio.run(enrol(dsn))
            requests = fetches(port, signed_in, phones)
            few, many = requests[:FEW], requests[FEW:]
            server = server_of(dsn)
            measure(keyrack.pid, port, few[:WARM], WARM)
            asyncio.run(analyze(dsn))
            table("keys issued", "Issued", "keys/s", "CPU us per key: server + PostgreSQL")
            half = (WARM * 2 + FEW) // 2
            for name, asked, keys, connections in (
                ("one per request, one phone at a time", few[WARM : 2 * WARM], 1, 1),
                ("one per request", few[2 * WARM : half], 1, 8),
                ("one per request, 64 phones at once", few[half:], 1, 64),
                (f"{EACH} per request", many, EACH, 8),
            ):
                before = cpu_times(family(server))
                result = measure(keyrack.pid, port, asked, len(asked), connections)
                assert result.statuses == {200: len(asked)}, result.statuses
                told(name, result, keys, cpu_since(before))
                asyncio.run(analyze(dsn))
            row("for comparison: signing alone", f"{signing:,.0f}", "")
            car = [http("GET", f"/v3/cars/{FIRST_CAR}", signed_in)]
            table("keys fetched", "Fetched", "requests/s", "p50 ms", "CPU us: server + PostgreSQL", "times")
            asked = {
                "one car, by a manager": car,
                "unchanged, a phone with one key": few,
                f"unchanged, a phone with {EACH} keys": many,
            }
            variants = (Variant(keyrack, of, 200, lambda: family(server)) for of in asked.values())
            fetched = alternate_servers(*variants, count=REQUESTS)
            for name, slices in zip(asked, fetched, strict=True):
                medians = typical(slices.results)
                cells = f"{medians.rate:,.0f}", f"{medians.p50:.2f}", f"{medians.cpu:.0f} + {medians.database_cpu:.0f}"
                row(name, *cells, ratio(slices.each("cpu"), fetched[0].each("cpu")).cell())
