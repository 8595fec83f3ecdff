"""A group-limited manager, compared with one of a small customer.

The group has 1,000 of 100,000 cars, the small customer has 1,000 cars. Both managers read the same number. The goal is
a ratio of at most 2 in the last column, for the CPU time of server and PostgreSQL together.

The benchmark also measures the cost of a permission check.
"""

from __future__ import annotations

import asyncio
import timeit

import asyncpg

from benchmarks import ACTOR
from benchmarks.conditional import CONNECTIONS, backends_of, cells
from benchmarks.foundation import LARGE, database, load, serving
from benchmarks.load import http
from benchmarks.sizes import sized
from benchmarks.slices import Variant, alternate_servers
from benchmarks.tables import row, table
from keyrack.api.caller import Caller
from keyrack.api.grants import in_scope, load_grants
from keyrack.http.routes import ALL

CUSTOMERS, CARS, WHOLE = 3, sized(101_100, tiny=3_100), 3  # the customers with 1,000 and with 100,000 cars
REPEATS = sized(100_000, tiny=100)  # permission checks
FILL = """
select set_config('keyrack.who', $1, false);
insert into fleet_group (customer_id, name) values (3, 'Group');
insert into customer_user (customer_id, user_id) values (3, 2) on conflict do nothing;
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select customer_id, 'U' || car_id, 'S' || car_id, 'P' || car_id, 'Box', car_id from car where customer_id in (2, 3);
insert into group_car select 3, group_id, car_id from fleet_group, car
  where fleet_group.customer_id = 3 and car.customer_id = 3 and car_id % 100 = 0;
insert into group_product select 3, group_id, product_id from fleet_group, product
  where fleet_group.customer_id = 3 and product.customer_id = 3 and car_id % 100 = 0;
insert into group_user select 3, group_id, 2 from fleet_group where customer_id = 3;
insert into assignment (customer_id, car_id, user_id, starts_at, lifetime) select customer_id, car_id, 2,
  now() + car_id % 1000 * interval '1 hour', 604800 from car where customer_id in (2, 3);
insert into event (customer_id, event_id, user_id, car_id, local_at, local_text, utc_at, type, user_agent)
  select customer_id, row_number() over (partition by customer_id), 2, car_id, t, t::text, t, 'CarOpened', 'bench'
  from car, generate_series(1, 3) n,
    lateral (select now() - car_id % 997 * interval '1 minute' - n * interval '1 day' as t) x
  where customer_id in (2, 3);
update manager_role set role = 'Manager', groups = array(select group_id from fleet_group where customer_id = 3),
  is_limited = true where customer_id = 3;
vacuum analyze
"""
# Name, path, and requests per slice
CASES = [
    ("`GET /cars`, all 1,000", "/cars", 15),
    ("its first page, `$top=100`", "/cars?$top=100", 60),
    ("by name, `$top=100`", "/cars?$orderby=name&$top=100", 25),
    ("with `$count=true`", "/cars?$top=100&$count=true", 40),
    ("`$filter=contains(name,'7')`", "/cars?$filter=contains(name,'7')&$top=100", 25),
    ("`$expand=products`", "/cars?$top=100&$expand=products", 25),
    ("`$filter=products/any()`", "/cars?$filter=products/any()&$top=100", 25),
    ("`GET /products`, `$top=100`", "/products?$top=100", 40),
    ("`GET /assignments`, `$top=100`", "/assignments?$top=100", 25),
    ("`GET /positions`, `$top=100`", "/positions?$top=100", 25),
    ("`GET /events`, the newest 100", "/events?$orderby=utcDateTime desc&$top=100", 15),
    ("`$apply=aggregate($count as n)`", "/cars?$apply=aggregate($count as n)", 40),
]


async def fill(dsn: str) -> None:
    raw = await asyncpg.connect(dsn)
    for statement in FILL.strip().split(";\n"):
        await raw.execute(statement.replace("$1", f"'{ACTOR}'"))
    await raw.close()


def permissions() -> None:
    """Print the cost of checking the caller's permission and its group limit."""
    (endpoint,) = [row for row in ALL if (row.method, row.path) == ("GET", "/cars")]
    table("limited permissions", "Check the caller's permission", "us")
    for name, grant in (
        ("an owner", load_grants("Owner", is_limited=False, lacks_factor=False)),
        ("a viewer who is limited to groups", in_scope("Viewer", 1, [1], lacks_factor=False)),
    ):
        caller = Caller(1, "bench", {1: grant})
        best = (
            min(timeit.repeat(lambda caller=caller: endpoint.permit(caller, 1), number=REPEATS, repeat=5))
            / REPEATS
            * 1e6
        )
        row(name, f"{best:.2f}")


def main() -> None:
    """Print the tables of benchmarks/results.md, "Permissions and group scopes"."""
    permissions()
    with database("limited") as dsn:
        key = asyncio.run(load(dsn, CUSTOMERS, CARS))
        asyncio.run(fill(dsn))
        with serving(dsn, key) as (keyrack, signed_in):
            columns = "all of 1,000 cars", f"{(CARS - 1_100) // 100:,} of {CARS - 1_100:,}"
            table("limited lists", "CPU us: server + PostgreSQL", *columns, "ratio")
            for name, path, count in CASES:
                requests = (
                    http("GET", "/v3" + path.replace(" ", "%20"), signed_in | {"Customer-ID": str(customer)})
                    for customer in (LARGE, WHOLE)
                )
                variants = (Variant(keyrack, [request], 200, backends_of(dsn)) for request in requests)
                alone, limited = alternate_servers(*variants, count=sized(count, tiny=1), connections=CONNECTIONS)
                row(name, *cells(limited, alone))
