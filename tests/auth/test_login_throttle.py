"""Failed log-ins: limits per name and address, per address, and per name.

No attacker elsewhere locks a name, and neither does a clock that is set back.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from keyrack.api.rate_limits import WIDER, RateLimit, network, per_network
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from tests.auth.test_authentication import log_in, too_many
from tests.support.people import PASSWORD, Person, web
from tests.support.servers import SELDOM, RunningServer, Sql, eventually

HERE, THERE = "203.0.113.1", "203.0.113.2"


@pytest.fixture(scope="module")
def strict(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that allows three failures for a name at an address, and eight for it in all."""
    few = {
        "login_rate_per_username_and_address": SELDOM,
        "login_burst_per_username_and_address": 3,
        "login_rate_per_address": SELDOM,
        "login_burst_per_address": 30,
        "login_rate_per_username": SELDOM,
        "login_burst_per_username": 8,
        "statement_timeout_seconds": 0.5,
    }
    with RunningServer(settings.model_copy(update=few), dsn, worker=False) as running:
        yield running


def guess(running: RunningServer, person: Person, address: str, times: int = 3, name: str = "") -> list[int]:
    """The statuses of wrong passwords."""
    name = name or person.username
    return [log_in(running, person.api_key, name, "wrong", address).status_code for _ in range(times)]


def test_guesses_at_one_address_lock_no_other_address_out(carol: Person, strict: RunningServer) -> None:
    """B8: ten wrong passwords from anywhere lock the name for that address alone."""
    assert guess(strict, carol, HERE, 13) == [401] * 3 + [429] * 10
    too_many(log_in(strict, carol.api_key, carol.username, PASSWORD, HERE))
    for _ in range(10):
        assert log_in(strict, carol.api_key, carol.username, PASSWORD, THERE).status_code == 200


def test_the_owner_can_log_in_during_guesses_with_the_default_limits(
    carol: Person, dsn: str, settings: Settings
) -> None:
    """B8: with the default settings."""
    with RunningServer(settings, dsn, worker=False) as running:
        assert guess(running, carol, HERE, 10) == [401] * 10
        too_many(log_in(running, carol.api_key, carol.username, PASSWORD, HERE))
        assert log_in(running, carol.api_key, carol.username, PASSWORD, THERE).status_code == 200


def test_guesses_from_many_addresses_are_limited_too(carol: Person, alice: Person, strict: RunningServer) -> None:
    """B8: the name's own bucket. While it is empty the owner is refused as well, and no other name is."""
    statuses = [status for n in range(4) for status in guess(strict, carol, f"192.0.2.{n}")]
    assert statuses == [401] * 8 + [429] * 4
    too_many(log_in(strict, carol.api_key, carol.username, PASSWORD, THERE))
    assert log_in(strict, alice.api_key, alice.username, PASSWORD, "192.0.2.0").status_code == 200


def test_a_refused_attempt_is_not_counted(carol: Person, alice: Person, strict: RunningServer) -> None:
    """B8: an attempt that one bucket refuses takes nothing from the others."""
    address = "192.0.2.100"
    assert guess(strict, carol, address, 40) == [401] * 3 + [429] * 37
    others = [guess(strict, carol, address, 3, f"nobody {n} {carol.username}") for n in range(9)]
    assert others == [[401] * 3] * 9, "27 more: the address has 30"
    too_many(log_in(strict, alice.api_key, alice.username, PASSWORD, address))
    assert guess(strict, carol, "192.0.2.101", 3) == [401] * 3, "the name has eight"
    assert guess(strict, carol, "192.0.2.102", 3) == [401, 401, 429]


def test_guesses_at_the_same_time_are_counted_exactly(carol: Person, strict: RunningServer) -> None:
    """B8: concurrent guesses get no more attempts than sequential ones."""
    name = f"nobody {carol.username}"

    def status(number: int) -> int:
        return guess(strict, carol, "198.51.100.9", 1, name)[0]

    with ThreadPoolExecutor(12) as threads:
        assert Counter(threads.map(status, range(24))) == {401: 3, 429: 21}


def test_the_spellings_of_a_name_are_one_name(carol: Person, strict: RunningServer, sql: Sql) -> None:
    """B8: every spelling that means the same manager is taken from the same bucket."""
    name = unicodedata.normalize("NFC", f"Ärzte {carol.username}")
    sql.execute("update manager set username = $2 where username = $1", carol.username, name)
    decomposed = unicodedata.normalize("NFD", name)
    spellings = (name, decomposed, name.replace("rzte", "RZTE"), decomposed.replace("rzte", "RZTE"))
    assert [guess(strict, carol, "192.0.2.120", 1, spelling)[0] for spelling in spellings] == [401, 401, 401, 429]


@pytest.mark.parametrize(
    ("address", "whose"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("", "unknown"),
        ("x" * 8000, "unknown"),
    ],
    ids=lambda text: text[:20],
)
def test_the_networks_of_an_address(address: str, whose: str) -> None:
    """B8: an IPv6 client has a /64 of addresses, which count as one."""
    assert network(address) == whose


@pytest.mark.parametrize(
    ("address", "buckets"),
    [
        ("203.0.113.7", {"203.0.113.7": 3}),
        ("unknown", {"unknown": 3}),
        ("2001:db8:1:2f3::1", {"2001:db8:1:2f3::/64": 3, "2001:db8:1:200::/56": 12, "2001:db8:1::/48": 48}),
        ("fe80::1%eth0", {"fe80::/64": 3, "fe80::/56": 12, "fe80::/48": 48}),
    ],
)
def test_the_buckets_of_an_address(address: str, buckets: dict[str, int]) -> None:
    assert {who: limit.burst for limit, who in per_network(RateLimit("address", 1, 3), address)} == buckets


def test_a_wider_network_of_ipv6_is_limited_as_well(carol: Person, strict: RunningServer) -> None:
    """Unknown names from the /64 of one /56: the address has 30, the /56 four times as many."""

    def status(number: int) -> int:
        return guess(strict, carol, f"2001:db8:77:{number % 256:x}::1", 1, f"nobody {number} {carol.username}")[0]

    with ThreadPoolExecutor(8) as threads:
        statuses = Counter(threads.map(status, range(160)))
    assert statuses[401] >= 120 and statuses[429] >= 10
    assert log_in(strict, carol.api_key, carol.username, PASSWORD, "2001:db8:78::1").status_code == 200


def test_no_48_locks_a_name_for_another_one(carol: Person, dsn: str, settings: Settings) -> None:
    """With the default limits of a name, or in proportion: 16 times the limit of an address is less."""
    names = [name for name in Settings.model_fields if name.startswith("login_")]
    own = settings.model_copy(update={name: Settings.model_fields[name].default for name in names})
    assert own.login_rate_per_username_and_address * max(WIDER.values()) < own.login_rate_per_username
    assert own.login_burst_per_username_and_address * max(WIDER.values()) < own.login_burst_per_username
    few = {name: max(1, getattr(own, name) // 10) for name in names}
    with RunningServer(settings.model_copy(update=few), dsn, worker=False) as server:
        addresses = [f"2001:db8:48:{number << 8:x}::1" for number in range(120)]
        with ThreadPoolExecutor(8) as threads:
            statuses = Counter(threads.map(lambda address: guess(server, carol, address, 1)[0], addresses))
        assert statuses[401] >= 16 and statuses[429] >= 60
        assert log_in(server, carol.api_key, carol.username, PASSWORD, "2001:db8:49::1").status_code == 200


def test_a_network_of_ipv6_is_one_address(carol: Person, strict: RunningServer) -> None:
    """B8: another address within the network gives no further guesses."""
    assert [guess(strict, carol, f"2001:db8:7:7::{n:x}", 1)[0] for n in range(5)] == [401] * 3 + [429] * 2
    assert log_in(strict, carol.api_key, carol.username, PASSWORD, "2001:db8:7:8::1").status_code == 200
    assert log_in(strict, carol.api_key, carol.username, PASSWORD, "no address " + "x" * 5000).status_code == 200


def test_an_unchecked_attempt_is_no_failure(carol: Person, strict: RunningServer, sql: Sql) -> None:
    """B8: while the database is too slow no log-ins are used up."""
    sql.execute("begin")
    sql.execute("lock table manager in access exclusive mode")
    try:
        answers = {log_in(strict, carol.api_key, carol.username, PASSWORD, "192.0.2.140").status_code for _ in range(4)}
    finally:
        sql.execute("rollback")
    assert answers == {503}
    assert guess(strict, carol, "192.0.2.140", 4) == [401, 401, 401, 429]


# A clock that is set back: earlier writes lie in the future

SHIFT = "update rate_limit set full_at = full_at + $2::text::interval where key like any($1)"


@pytest.mark.parametrize("step", ["1 hour", "10 minutes", "3000 days"])
def test_a_clock_that_is_set_back_locks_no_name(carol: Person, strict: RunningServer, sql: Sql, step: str) -> None:
    """B12: a bucket that is full only after the longest time is from before.

    One attempt is left, and the bucket keeps its limit.
    """
    address, name = f"2001:db8:{len(step)}::1", digest(carol.username).hex()
    assert guess(strict, carol, address, 4) == [401] * 3 + [429]
    sql.execute(SHIFT, [f"login:{name}%", f"name:{name}%", f"address:{network(address)}"], step)
    assert log_in(strict, carol.api_key, carol.username, PASSWORD, address).status_code == 200
    assert guess(strict, carol, address, 3) == [401, 429, 429]


def test_assignments_continue_after_a_clock_is_set_back(carol: Person, dsn: str, settings: Settings, sql: Sql) -> None:
    """B12: the same function bounds assignments."""
    body = {"carId": carol.car_with_box(), "userId": carol.user(), "start": "2026-01-01T00:00:00Z"}
    quick = settings.model_copy(update={"assignment_rate": 240, "assignment_burst": 2})
    with RunningServer(quick, dsn, worker=False) as running:

        def ask() -> int:
            return web().put(running.url + "/v3/assignments", json=body, headers=carol.headers).status_code

        assert ask() == 204
        sql.execute(SHIFT, [f"assignments:{carol.customer}"], "1 hour")
        assert ask() == 204
        eventually(lambda: ask() == 204, "the next one")


def test_small_steps_of_the_clock_change_no_limit(carol: Person, sql: Sql) -> None:
    """B12: less than a second is no clock that was set back, so the limit stays exact."""
    take, bucket = "select allowed from take($1, 1, 3, 5)", f"uneven:{carol.customer}"
    assert sql.value(take, bucket) == 3
    for step, allowed in (("0.5 seconds", 0), ("1 hour", 1), ("0", 0)):
        sql.execute(SHIFT, [bucket], step)
        assert sql.value(take, bucket) == allowed


def test_a_bucket_deleted_meanwhile_is_created_again(carol: Person, dsn: str, sql: Sql) -> None:
    """A request that waited for a row, which was deleted, is still counted."""
    bucket = f"tidied:{carol.customer}"
    sql.execute("insert into rate_limit (key, full_at) values ($1, now() - interval '2 hours')", bucket)
    sql.execute("begin")
    sql.execute("delete from rate_limit where key = $1", bucket)
    other = Sql(dsn)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(other.rows, "select allowed, remaining from take($1, 1, 3, 2)", bucket)
        blocked = "select count(*) from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))"
        eventually(lambda: sql.value(blocked), "the wait")
        sql.execute("commit")
        assert tuple(waiting.result()[0]) == (2, 1)
    other.close()
