"""The upgrade from 0.1.0 with a documented stop.

The data is that of its demo, and many more rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from keyrack.db import schema_version
from keyrack.db.embedded.server import EmbeddedServer
from tests.support.people import http_client
from tests.support.servers import DEADLINE, free_port, reachable_directory
from tests.upgrades import releases
from tests.upgrades.releases import PACKAGE, ROOT

pytestmark = pytest.mark.cluster

FIRST = "0e2f481a7d00500dd1b25fe018af2d26ca814fd9"
ROWS = 100_000  # of each table that grows

# The reads of a fleet that 0.1.0 and this release share. Ids and times are compared
SEEN = (
    "/customers", "/cars?$orderby=id&$top=1000", "/users?$orderby=id&$top=1000", "/groups?$orderby=id",
    "/products?$orderby=id&$top=1000", "/services?$orderby=id&$top=1000", "/brands",
)  # fmt: skip
FILL = """
insert into car (customer_id, car_id, name)
  select $1, 1000000 + n, 'Car ' || n from generate_series(1, $2) n;
insert into person (user_id, email_address, type)
  select 1000000 + n, 'user' || n || '@example.org', 'Anonymous' from generate_series(1, $2) n;
insert into customer_user (customer_id, user_id) select $1, 1000000 + n from generate_series(1, $2) n;
insert into assignment (customer_id, assignment_id, car_id, user_id, starts_at, lifetime, renewable_after)
  select $1, 1000000 + n, 1000000 + n, 1000000 + n, now(), 700000, 350000 from generate_series(1, $2) n;
insert into event (customer_id, event_id, user_id, car_id, local_at, local_text, utc_at, type, user_agent)
  select $1, 1000000 + n, 1000000 + n, 1000000 + n, now(), '2026-05-01T10:00:00', now(), 'CarOpened', 'tests'
  from generate_series(1, $2) n;
insert into webhook (customer_id, webhook_id, url, kinds, signing_secret, is_enabled)
  values ($1, 1000000, 'http://127.0.0.1:9/', '{assignment.created}', 'whsec_eA==', false);
insert into delivery (customer_id, webhook_id, message_id, type, lane, payload, state)
  select $1, 1000000, gen_random_uuid(), 'assignment.created', n, '{}', 'Delivered' from generate_series(1, $2) n;
"""


def pins(text: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9_.\-\[\]]+==\S+", text, re.MULTILINE))


def read(told: Mapping[str, str], url: str) -> dict[str, Any]:
    """The responses to a caller with the credentials of the demo."""
    with http_client(base_url=f"{url}/v3") as client:
        key = {"vendor-API-Key": told["KEYRACK_API_KEY"]}
        form = {
            "grant_type": "password", "username": told["KEYRACK_USERNAME"], "password": told["KEYRACK_PASSWORD"],
        }  # fmt: skip
        token = client.post("/oauth2/token", data=form, headers=key).json()["access_token"]
        headers = key | {"Authorization": f"Bearer {token}", "Customer-ID": told["KEYRACK_CUSTOMER_ID"]}
        return {path: client.get(path, headers=headers).json() for path in SEEN}


def known(now: Any, before: Any) -> Any:
    """The present members, reduced to those of the earlier response."""
    if isinstance(before, list):
        return [known(*both) for both in zip(now, before, strict=True)]
    if isinstance(before, dict):
        return {name: known(now[name], value) for name, value in before.items()}
    return now


@contextlib.contextmanager
def serving(source: Path, state: Path, command: str) -> Iterator[dict[str, str]]:
    """A server on the embedded database. Yields the line that it prints once it is ready."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
    words = command, "--port", str(free_port()), "--state", str(state), "--json"
    process = releases.command(source, *words, env=env, errors=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        assert process.wait(DEADLINE) == 0


async def fill(state: Path, customer: int) -> dict[str, int]:
    """Insert many rows like those of 0.1.0, and return their number by table."""
    server = EmbeddedServer(state)
    await asyncio.to_thread(server.start)
    try:
        connection = await asyncpg.connect(server.dsn)
        await connection.execute(FILL.replace("$1", str(customer)).replace("$2", str(ROWS)))
        tables = [row[0] for row in await connection.fetch("select relname from pg_class where relkind = 'r' and"
                  " relnamespace = 'public'::regnamespace")]  # fmt: skip
        counts = {table: await connection.fetchval(f'select count(*) from "{table}"') for table in sorted(tables)}
        await connection.close()
        return {table: count for table, count in counts.items() if count}
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.skipif(not os.environ.get("KEYRACK_UPGRADES"), reason="make test-upgrade")
def test_upgrade_from_the_first_release_with_a_stop() -> None:
    """The demo of 0.1.0 fills a database. This release migrates it and returns the same through the API."""
    with reachable_directory() as base:
        state, old = base / "state", releases.earlier(base, FIRST)
        packed = subprocess.run(["git", "show", f"{FIRST}:requirements/runtime.txt"], cwd=ROOT, capture_output=True)
        assert pins(packed.stdout.decode()) <= pins((ROOT / "requirements/runtime.txt").read_text()), "other libraries"

        with serving(old, state, "demo") as told:
            before = read(told, told["KEYRACK_URL"].removesuffix("/v3"))
        assert all(before.values())
        counts = asyncio.run(fill(state, int(told["KEYRACK_CUSTOMER_ID"])))

        env = os.environ | {"KEYRACK_DATABASE_URL": ""}
        new = PACKAGE.parent
        check = releases.command(new, "migrate", "--check", "--state", str(state), env=env)
        assert check.wait(DEADLINE) == 3
        assert "Stop every process of Keyrack first" in check.communicate()[0]
        migrating = releases.command(new, "migrate", "--state", str(state), env=env)
        output, errors = migrating.communicate(timeout=600)
        assert (migrating.returncode, output) == (0, f"The schema is at revision {schema_version.head()}.\n"), errors

        with serving(new, state, "serve") as where:
            after = read(told, where["url"].removesuffix("/v3"))
        added = {"/cars?$orderby=id&$top=1000", "/users?$orderby=id&$top=1000"}
        for path, shown in before.items():
            now = after[path][: len(shown)] if path in added else after[path]
            assert known(now, shown) == shown, path
        print(f"\nrows: {counts}")
        for line in errors.splitlines():
            if '"migration applied"' in line:
                done = json.loads(line)
                print(f"{done['revision']}  {done['seconds']} s")
