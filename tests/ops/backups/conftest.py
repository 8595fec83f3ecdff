"""A house that has been lived in, and copies of it, which are quicker to have than new ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.db.embedded.test_postgres import nobody
from tests.ops.backups.instance import House, new_house

__all__ = ["nobody"]


@pytest.fixture(scope="session")
def lived_in() -> Iterator[House]:
    """With a customer, a manager, keys and a full backup; nobody changes it."""
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
