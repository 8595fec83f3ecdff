"""A used installation with a backup, and copies of it.

A copy is faster to make than a new installation.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.db.embedded.test_postgres import nobody
from tests.ops.backups.instance import House, new_house

__all__ = ["nobody"]


@pytest.fixture(scope="session")
def lived_in() -> Iterator[House]:
    """A stopped installation with a customer, a manager, keys and a full backup. No test changes it."""
    with new_house() as house:
        with house.serving():
            customer = house.json("customer", "add", "Example Fleet")["id"]
            house.password = house.json("manager", "add", "mo", "--role", "owner", "--customer", customer)["password"]
            house.key = house.json("api-key", "add", "tests")["apiKey"]
            house.full = house.json("backup", "create")
        yield house


@pytest.fixture
def house(lived_in: House) -> Iterator[House]:
    with new_house(lived_in) as copy:
        copy.password, copy.key, copy.full = lived_in.password, lived_in.key, lived_in.full
        yield copy
