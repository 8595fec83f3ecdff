"""A server over a log that only these tests write: no worker numbers changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyrack.core.settings import Settings
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, Sql, migrated_database


@pytest.fixture(scope="session")
def dsn(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as address:
        yield address


@pytest.fixture(scope="session")
def sql(dsn: str) -> Iterator[Sql]:
    statements = Sql(dsn)
    yield statements
    statements.close()


@pytest.fixture(scope="session")
def server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="session")
def town(sql: Sql, server: RunningServer) -> Town:
    return Town(sql, server)


@pytest.fixture
def alice(town: Town) -> Iterator[Person]:
    person = town.person("alice")
    yield person
    person.client.close()


@pytest.fixture
def bob(town: Town) -> Iterator[Person]:
    person = town.person("bob")
    yield person
    person.client.close()


@pytest.fixture
def carol(town: Town) -> Iterator[Person]:
    person = town.person("carol")
    yield person
    person.client.close()
