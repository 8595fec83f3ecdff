"""Cells in the settings: in the configuration file, a file, or JSON."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from keyrack.core.cell_ids import IDS_PER_CELL, MOST_CELLS, cell_of_id, id_range
from keyrack.core.settings import Settings
from tests.cli.test_startup_errors import refused_here
from tests.core.settings.test_config_file import BARE, told, written

pytestmark = pytest.mark.cluster

NORTH = """
[[cells]]
name = "north"
number = 1
url = "postgresql://keyrack:s3cret@north/keyrack"
read_url = "postgresql://keyrack:s3cret@north-replica/keyrack"
"""
SOUTH = """
[[cells]]
name = "south"
number = 2
url = "postgresql://south/keyrack"
direct_url = "postgresql://south-direct/keyrack"
"""


def refused(text: str, **env: str) -> str:
    why = refused_here("settings", **BARE, **env, KEYRACK_CELLS=text)
    assert "s3cret" not in why
    return why.removeprefix("A setting is not valid. KEYRACK_CELLS: ").removesuffix(".")


def test_no_cell_is_configured_by_default() -> None:
    settings = Settings(database_url="postgresql://main/keyrack")
    (main,) = settings.all_cells
    assert (main.number, main.name, main.settings) == (0, "main", settings)


def test_each_cell_has_the_settings_with_its_own_database() -> None:
    settings = Settings.model_validate({"database_url": "postgresql://main/keyrack", "cells": NORTH + SOUTH})
    main, north, south = settings.all_cells
    assert main.settings is settings
    assert (north.number, north.name, north.settings.cells) == (1, "north", ())
    assert north.settings.read_database_url == "postgresql://keyrack:s3cret@north-replica/keyrack"
    assert south.settings.database_url == "postgresql://south/keyrack"
    assert south.settings.database_direct_url == "postgresql://south-direct/keyrack"
    assert south.settings.read_database_url is None
    assert south.settings.pool_size == settings.pool_size


def test_each_cell_knows_the_others() -> None:
    settings = Settings.model_validate({"database_url": "postgresql://main/keyrack", "cells": NORTH + SOUTH})
    main, north, south = settings.all_cells
    assert main.settings.other_cells == (north, south)
    alone = settings.for_main_cell()
    assert (alone.cells, alone.other_cells) == ((), (north, south))
    assert north.settings.other_cells == (main, south)
    changed = south.settings.model_copy(update={"pool_size": 3})
    assert [cell.number for cell in changed.other_cells] == [0, 1]
    assert Settings().other_cells == ()


@pytest.mark.parametrize("source", ["configuration", "file", "environment"])
def test_cells_come_from_each_source_and_passwords_are_not_shown(tmp_path: Path, source: str) -> None:
    env = {
        "configuration": {"KEYRACK_CONFIG": written(tmp_path / "k.toml", f"pool_size = 3\n{NORTH}")},
        "file": {"KEYRACK_CELLS_FILE": written(tmp_path / "cells.toml", NORTH)},
        "environment": {
            "KEYRACK_CELLS": json.dumps(
                [{
                    "name": "north", "number": 1, "url": "postgresql://keyrack:s3cret@north/keyrack",
                    "read_url": "postgresql://keyrack:s3cret@north-replica/keyrack",
                }]
            )
        },
    }[source]  # fmt: skip
    row = next(row for row in told(**env) if row["name"] == "cells")
    assert row["from"] == source
    assert row["value"] == [
        {
            "name": "north", "number": 1, "url": "postgresql://keyrack:***@north/keyrack", "direct_url": None,
            "read_url": "postgresql://keyrack:***@north-replica/keyrack",
        }
    ]  # fmt: skip


def test_a_configuration_file_with_a_password_is_not_for_everybody(tmp_path: Path) -> None:
    path = written(tmp_path / "k.toml", NORTH, 0o644)
    why = refused_here("settings", **BARE, KEYRACK_CONFIG=path)
    assert why.startswith(f"{path}, line 2: cells is secret, and every user of this machine can read the file.")
    assert "s3cret" not in why


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NORTH + NORTH, "two cells have the same name north, one of them is north"),
        (NORTH + SOUTH.replace("= 2", "= 1"), "two cells have the same number 1, one of them is north"),
        (
            NORTH + SOUTH.replace("postgresql://south/", "postgresql://keyrack:s3cret@north/"),
            "two cells have the same url, one of them is north",
        ),
        (NORTH.replace("= 1", "= 0"), "cell north: number is not a whole number from 1 to 63"),
        (NORTH.replace("= 1", "= 64"), "cell north: number is not a whole number from 1 to 63"),
        (NORTH.replace("= 1", '= "1"'), "cell north: number is not a whole number from 1 to 63"),
        (NORTH.replace("number = 1", ""), "cell north: number is missing"),
        (NORTH.replace("number", "nummer"), "cell north: number is missing"),
        (
            NORTH + "\nsize = 3",
            "cell north: there is no member size; the members are name, number, url, direct_url, read_url",
        ),
        (
            NORTH.replace('"north"', '"North"'),
            "cell North: name is not 1 to 32 characters of a-z, 0-9 and -, beginning with a letter",
        ),
        (NORTH.replace('"north"', '"main"'), "a cell has the name main, which is that of KEYRACK_DATABASE_URL"),
        ('[{"name": "a", "number": 1, "url": 7}]', "cell a: url is not text"),
        ('[{"number": 1}, 7]', "cell 1: name is missing"),
        ("[{}", "the value is not TOML with [[cells]], and no JSON array: "),
        ("cells = 7", "the value is not a list of tables [[cells]]"),
        ("pool_size = 7", "the value is not a list of tables [[cells]]"),
    ],
)
def test_a_wrong_list_is_refused_with_the_reason(text: str, reason: str) -> None:
    assert refused(text).startswith(reason)


def test_an_address_that_is_none_is_refused_without_repeating_it() -> None:
    assert refused(NORTH.replace("postgresql://keyrack:s3cret@north/", "mysql://keyrack:s3cret@north/")).startswith(
        "cell north: url: the value is not an address of the form postgresql://"
    )


def test_a_cell_with_the_address_of_the_main_database_is_refused() -> None:
    why = refused(NORTH, KEYRACK_DATABASE_URL="postgresql://keyrack:s3cret@north/keyrack")
    assert why == "cell north has the address of KEYRACK_DATABASE_URL, the database of cell 0"


def test_ranges_of_ids_are_disjoint_and_fit_into_an_int32() -> None:
    ranges = [id_range(number) for number in range(MOST_CELLS)]
    assert ranges[0].start == 1
    assert all(earlier.stop == later.start for earlier, later in itertools.pairwise(ranges))
    assert ranges[-1].stop - 1 == 2**31 - 1
    assert all(cell_of_id(ids.start) == cell_of_id(ids.stop - 1) == number for number, ids in enumerate(ranges))
    assert len(ranges[0]) == IDS_PER_CELL
    for number in (-1, MOST_CELLS):
        with pytest.raises(ValueError, match="from 0 to 63"):
            id_range(number)
