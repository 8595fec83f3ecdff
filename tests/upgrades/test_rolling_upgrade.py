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

# The commits before this release, and whether an old node can restart after the migration
EARLIER = {
    "aea7df8e7ec26e687cde0d88d7d8765df9e9d16e": False,  # 0.2.0: it does not start on a newer schema
    # The last commit with the old module names. Its processes write beside those of this release. So session settings
    # for triggers, notification channels and advisory locks must be equal
    "22783a9c30fc8775c9f764ee5ca71b53d5f057fb": True,
}


def rehearse(dsn: str, old: Path, new: Path, log: Path, *, restarts: bool) -> None:
    """Two nodes of `old` serve load while `new` migrates and replaces them."""
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
            if restarts:  # an old node dies and its supervisor restarts it
                nodes[1] = replaced(balancer, nodes[1], lambda: node(old))
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
    """The tested release is the old one. The next has further migrations. An old node restarts in between."""
    with migrated_database(database_server) as dsn:
        new = releases.later(tmp_path, "next")
        rehearse(dsn, Path(schema_version.__file__).parents[2], new, tmp_path, restarts=True)


@pytest.mark.skipif(not LONG, reason="make test-upgrade")
@pytest.mark.parametrize(("commit", "restarts"), EARLIER.items())
def test_this_release_takes_over_from_the_one_before(
    database_server: str, tmp_path: Path, commit: str, restarts: bool
) -> None:
    """The tested release is the new one. An earlier commit serves first."""
    with fresh_database(database_server) as dsn:
        old = releases.earlier(tmp_path, commit)
        rehearse(dsn, old, Path(schema_version.__file__).parents[2], tmp_path, restarts=restarts)
