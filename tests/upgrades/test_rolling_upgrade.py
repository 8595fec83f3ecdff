"""Rolling upgrades: a release serves load while the next one migrates and replaces its processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyrack.db import schema_version
from tests.support.people import Person, Town
from tests.support.servers import DEADLINE, Sql, eventually, fresh_database, migrated_database
from tests.upgrades import releases
from tests.upgrades.rolling_upgrade import Balancer, Load, Node, fleet, replaced

pytestmark = pytest.mark.cluster

LONG = bool(os.environ.get("KEYRACK_UPGRADES"))
CALLERS, PAUSE = (8, 0.02) if LONG else (2, 0.1)
ANSWERS = 1_000 if LONG else 10  # responses between two steps

# The previous release. Its processes write beside those of this one, so session settings for triggers, notification
# channels and advisory locks must be equal
PREVIOUS = "743ec30915011b0c861264acd04cc4b8df1ef531"  # 0.3.0


def rehearse(dsn: str, old: Path, new: Path, log: Path) -> None:
    """Two nodes of `old` serve load while `new` migrates and replaces them. One of them dies in between."""
    public_url = "http://keyrack.example"

    def node(source: Path) -> Node:
        return Node(source, dsn, log / f"{source.parent.name}.log", public_url)

    nodes = [node(old), node(old)]
    balancer, sql = Balancer(), Sql(dsn)
    try:
        for one in nodes:
            balancer.add(one)
        person: Person = Town(sql, nodes[0]).person("alice")
        cars, user = fleet(person, 4)
        with Load(balancer, person, cars, user, CALLERS, PAUSE) as load:
            load.goes_on(ANSWERS)
            migrating = releases.command(new, "migrate", env=os.environ | {"KEYRACK_DATABASE_URL": dsn})
            assert migrating.wait(DEADLINE) == 0, migrating.communicate()
            load.goes_on(ANSWERS)
            nodes[1] = replaced(balancer, nodes[1], lambda: node(old))  # its supervisor has restarted it
            load.goes_on(ANSWERS)
            for number in range(2):
                nodes[number] = replaced(balancer, nodes[number], lambda: node(new))
                load.goes_on(ANSWERS)
        assert load.failed == []
        counted = "select count(*) from operation where customer_id = $1 and state = $2"
        eventually(lambda: sql.value(counted, person.customer, "Pending") == 0, "the outcomes")
        assert sql.value(counted, person.customer, "Succeeded") == load.assignments
        assert sql.value("select count(*) from assignment where customer_id = $1", person.customer) == load.assignments
        print(f"\n{load.answers.total()} answers, none failed: {dict(load.answers)}")
    finally:
        for one in nodes:
            one.end()
        sql.close()


def test_the_next_release_takes_over_without_a_failed_request(database_server: str, tmp_path: Path) -> None:
    """The tested release is the old one. The next has further migrations."""
    with migrated_database(database_server) as dsn:
        new = releases.later(tmp_path, "next")
        rehearse(dsn, Path(schema_version.__file__).parents[2], new, tmp_path)


@pytest.mark.skipif(not LONG, reason="make test-upgrade")
def test_this_release_takes_over_from_the_one_before(database_server: str, tmp_path: Path) -> None:
    """The tested release is the new one."""
    with fresh_database(database_server) as dsn:
        old = releases.earlier(tmp_path, PREVIOUS)
        rehearse(dsn, old, Path(schema_version.__file__).parents[2], tmp_path)
