"""A server with two cells, and a person in each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keyrack.core.settings import Settings
from tests.support.cells import TwoCells, two_cells
from tests.support.people import Person


@pytest.fixture(scope="module")
def two(database_server: str, settings: Settings) -> Iterator[TwoCells]:
    with two_cells(database_server, settings) as cells:
        yield cells


@pytest.fixture(scope="module")
def people(two: TwoCells) -> tuple[Person, Person]:
    """A manager with a customer in each cell."""
    return two.towns[0].person("main"), two.towns[1].person("north")
