"""Every endpoint, called by every caller."""

from __future__ import annotations

from collections.abc import Iterator

from tests.recordings.bench import Bench
from tests.recordings.cast import CAROL, KEY, MEMBERS
from tests.recordings.session import Caller
from tests.recordings.table import Row

NO_SCOPES = ("managers:write", "clients:write")  # scopes that machine clients cannot have
FORGED = "eyJhbGciOiJFUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiIxIiwiZXhwIjoxfQ.AAAA"


def run(bench: Bench) -> None:
    """Send the successful request of each endpoint as every caller."""
    session, cast = bench.session, bench.cast
    clients = _clients(bench)
    for row in session.document.rows:
        session.section = row.tag
        for caller in _callers(bench, row, clients):
            title = f"{row.name} as {caller.name}"
            response = session.record(caller, bench.call(row), title)
            bench.clean_up(row, response)
        if "oauth2" in row.schemes:
            response = session.record(cast.bob, bench.call(row), f"{row.name} as bob, with ids of alice")
            bench.clean_up(row, response)


def _callers(bench: Bench, row: Row, clients: dict[str, Caller]) -> Iterator[Caller]:
    """All callers, the proper one first."""
    cast, owner = bench.cast, bench.cast.owner
    yield bench.caller(row)
    others = [
        cast.nobody,
        cast.keyed,
        owner,
        *[cast.callers[name] for name in MEMBERS if name not in ("password", "changed")],
    ]
    others += [cast.callers[name] for name in ("gateway", "unit", "app")]
    if "oauth2" in row.schemes:
        others += [
            Caller("owner without a token", {**cast.keyed.headers, "Customer-ID": owner.headers["Customer-ID"]}),
            owner.with_headers("owner with a wrong API key", {KEY: "wrong"}),
            owner.with_headers("owner with a forged token", {"Authorization": f"Bearer {FORGED}"}),
            owner.with_headers("owner with a token of another scheme", {"Authorization": "Basic b3duZXI6eA=="}),
            owner.with_headers("owner for a third customer", {"Customer-ID": str(CAROL)}),
        ]
        others += [clients[name] for scope in row.scopes for name in (scope, f"all but {scope}") if name in clients]
        if not row.scopes:
            others.append(clients["cars:read"])
    seen = {bench.caller(row).name}
    for caller in others:
        if caller.name not in seen:
            seen.add(caller.name)
            yield caller


def _clients(bench: Bench) -> dict[str, Caller]:
    """Machine clients for each scope: one with only this scope, and one with all others."""
    rows = bench.session.document.rows
    scopes = sorted({scope for row in rows for scope in row.scopes} - set(NO_SCOPES))
    clients: dict[str, Caller] = {}
    for scope in scopes:
        clients[scope] = bench.cast.client(f"client with {scope}", [scope])
        rest = [each for each in scopes if each != scope]
        clients[f"all but {scope}"] = bench.cast.client(f"client without {scope}", rest)
    return clients
