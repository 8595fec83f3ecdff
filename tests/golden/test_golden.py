"""Public and shared names are those of the golden files in `data`. `make golden` rewrites them."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from keyrack.db.change_notifier import LETTERS
from tests.golden import command_output
from tests.golden.catalog import describe_catalog, read_version
from tests.golden.source_scan import find_shared_names, scan_source
from tests.support.servers import migrated_database

DATA = Path(__file__).parent / "data"
SOURCE = command_output.ROOT / "src"
IS_WRITING = os.environ.get("KEYRACK_GOLDEN") == "write"
MAX_DIFF_LINES = 1_000
CATALOG = "catalog.txt"
NAMES = "names.txt"
TEST_NAMES = "test_names.tsv"  # a record, see collect_names
MOVED_TESTS = "moved_tests.tsv"  # where each of them went
FILTER = command_output.ROOT / "deploy/fail2ban/filter.d/keyrack.conf"
PHRASE = re.compile(r"[a-z][a-z0-9]*((, | |-)[a-z0-9]+)*")
CATALOG_VERSION = 18  # of PostgreSQL: others print expressions in another way

REMEDY = (
    "If the difference is intended, accept it with `make golden`, and let the message of the commit explain it.\n"
    "Otherwise restore the old behaviour."
)


def format_log_events() -> str:
    head = (
        "# level, event, logger, fields in their order; tabs between them. {} is a computed part, ** computed fields.\n"
    )
    return head + "".join(f"{event}\n" for event in sorted(scan_source(SOURCE).events))


def format_shared_names(dsn: str) -> str:
    """Names that processes of two releases share.

    Both run at the same time during an upgrade without a stop.
    """
    names = find_shared_names(scan_source(SOURCE).constants, command_output.list_metric_names())
    names["letters of topics in notifications of keyrack_live"] = [
        f"{letter} {topic}" for topic, letter in LETTERS.items()
    ]
    names["steps of housekeeping"] = command_output.list_housekeeping_steps(dsn)
    names["settings of a session at its start"] = command_output.list_session_settings()
    return "\n".join(f"[{kind}]\n" + "".join(f"{name}\n" for name in names[kind]) for kind in sorted(names))


PRODUCERS: dict[str, Callable[[], str]] = {
    "openapi.json": command_output.format_openapi,
    "help.txt": command_output.format_help,
    "metrics.txt": command_output.format_metrics,
    "migrations.sql": command_output.format_migrations,
    "settings_sections.txt": command_output.format_settings_sections,
    "log_events.txt": format_log_events,
}


def check_golden(name: str, text: str) -> None:
    """Compare the text with the golden file.

    `make golden` writes the file instead.
    """
    file = DATA / name
    if IS_WRITING:
        file.write_text(text, encoding="utf-8")
        return
    expected = file.read_text(encoding="utf-8")
    if text == expected:
        return
    old, new = expected.splitlines(), text.splitlines()
    diff = difflib.unified_diff(old, new, f"tests/golden/data/{name}", "now", lineterm="")
    lines = list(islice(diff, MAX_DIFF_LINES + 1))
    if len(lines) > MAX_DIFF_LINES:
        lines[-1] = f"... more than {MAX_DIFF_LINES} lines"
    pytest.fail("\n".join([f"{name} has changed.", *lines, REMEDY]), pytrace=False)


@pytest.mark.parametrize("name", PRODUCERS)
def test_output_is_that_of_the_golden_file(name: str) -> None:
    check_golden(name, PRODUCERS[name]())


@pytest.fixture(scope="module")
def migrated(database_server: str) -> Iterator[str]:
    """A separate database, because other tests change the shared one."""
    with migrated_database(database_server) as dsn:
        yield dsn


def test_shared_names_are_those_of_the_golden_file(migrated: str) -> None:
    check_golden(NAMES, format_shared_names(migrated))


def test_catalog_of_a_migrated_database_is_that_of_the_golden_file(migrated: str) -> None:
    if (version := asyncio.run(read_version(migrated))) != CATALOG_VERSION:
        pytest.skip(f"the catalogue was recorded with PostgreSQL {CATALOG_VERSION}, and this is {version}")
    check_golden(CATALOG, asyncio.run(describe_catalog(migrated)))


def test_the_fail2ban_filter_matches_a_log_event() -> None:
    """A filter that matches no event bans no address, and reports no error."""
    text = FILTER.read_text(encoding="utf-8").replace("\\.", ".")
    (event,), (logger,) = (re.findall(rf'"{name}": "([^"]+)"', text) for name in ("event", "logger"))
    lines = (DATA / "log_events.txt").read_text(encoding="utf-8").splitlines()
    # The filter expects the address first and the event behind it, so no other field may come
    assert f"warning\t{event}\t{logger}\taddress" in lines


def test_log_events_are_lower_case_phrases() -> None:
    texts = {event.text for event in scan_source(SOURCE).events} - {"{}"}
    assert [text for text in sorted(texts) if not PHRASE.fullmatch(text)] == []


def test_every_golden_file_has_a_test() -> None:
    assert {file.name for file in DATA.iterdir()} == {*PRODUCERS, NAMES, CATALOG, TEST_NAMES, MOVED_TESTS}
