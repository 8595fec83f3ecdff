"""Renamed settings: an old name is an error that names the new one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import RENAMED, Settings, unknown, variable
from tests.cli.test_startup_errors import refused_here
from tests.core.settings.test_config_file import BARE, written
from tests.support.cases import for_all

ROOT = Path(__file__).parents[3]
ROWS = for_all("row", RENAMED.items(), label=lambda row: f"{row[0]}, {row[1]}")
# Files that quote old names: the tables, the history, and tests that start a release that knows only the old names
QUOTING = {
    "CHANGELOG.md", "docs/upgrading-to-0.3.md", "tests/ops/doctor/test_doctor.py", "tests/upgrades/rolling_upgrade.py",
    "src/keyrack/webhooks/delivery_errors.py", "tests/webhooks/test_delivery_errors.py",  # stored texts of 0.2
}  # fmt: skip
SOURCES = (
    "src",
    "tests",
    "docs",
    "deploy",
    "drills",
    "benchmarks",
    "packages",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
)
TEXTS = {".md", ".py", ".yml", ".yaml", ".conf", ".service", ".json", ".toml", ".html", ".js", ".ts", ".sh", ".txt", ""}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings."""
    for name in BARE:
        monkeypatch.delenv(name)


def note(old: str, new: str) -> str:
    return f"{old} is the old name of {new}, and has no effect. Rename it."


def test_the_table_names_settings() -> None:
    assert set(RENAMED.values()) <= Settings.model_fields.keys()
    assert not RENAMED.keys() & Settings.model_fields.keys()


@ROWS
def test_an_old_variable_is_an_error(row: tuple[str, str]) -> None:
    """The value is not used, whether it is valid or not."""
    old, new = (variable(name) for name in row)
    for value in ("1", "x"):
        assert refused_here("settings", **BARE, **{old: value}) == note(old, new)


@ROWS
def test_an_old_key_is_an_error(row: tuple[str, str], tmp_path: Path) -> None:
    old, new = row
    config = written(tmp_path / "c", f"\n{old} = 1\n")
    assert refused_here("settings", **BARE, KEYRACK_CONFIG=config) == f"{config}, line 2: {note(old, new)}"


def test_an_empty_old_variable_is_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for old in RENAMED:
        monkeypatch.setenv(variable(old), "")
    assert Settings() == Settings.model_construct(**Settings().model_dump())


def test_all_old_variables_are_in_one_error() -> None:
    """In lower case as well, and beside the new name."""
    names = {"keyrack_stop_delay": "3", "KEYRACK_SHUTDOWN_DELAY_SECONDS": "3", "KEYRACK_MAX_BODY": "2000"}
    why = [
        note("KEYRACK_MAX_BODY", "KEYRACK_MAX_BODY_BYTES"),
        note("KEYRACK_STOP_DELAY", "KEYRACK_SHUTDOWN_DELAY_SECONDS"),
    ]
    for command in ("settings", "customer list", "migrate --check", "serve"):
        assert refused_here(command, **BARE, **names) == " ".join(why)


@pytest.mark.parametrize("name", ["stop_delay", "connections", "changes_days"])
def test_the_call_takes_no_name_that_is_no_setting(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Settings(**{name: 3})
    with pytest.raises(TypeError, match=f"^there is no setting {name}$"):
        Settings().model_copy(update={name: 3})


def test_keyrack_settings_finds_a_setting_by_its_old_name() -> None:
    result = CliRunner(env=BARE).invoke(application("settings"), ["settings", "--json", "KEYRACK_STOP_DELAY"])
    assert json.loads(result.stdout)["name"] == "shutdown_delay_seconds"


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("share_waitin", "db_queue_max_waiting"),
        ("db_queue_max_waitin", "db_queue_max_waiting"),
        ("webhook_network", "webhook_allowed_networks"),
        ("stop_dellay", "shutdown_delay_seconds"),
        ("login_rate_per_user_name", "login_rate_per_username"),
    ],
)
def test_a_hint_names_the_new_name(tmp_path: Path, misspelt: str, meant: str) -> None:
    assert unknown(Settings, {variable(misspelt): "1"}) == {variable(misspelt): variable(meant)}
    config = written(tmp_path / "c", f"{misspelt} = 1")
    assert refused_here("settings", **BARE, KEYRACK_CONFIG=config) == (
        f"{config}, line 1: there is no setting {misspelt}. Did you mean {meant}?"
    )
    assert refused_here(f"settings {misspelt}", **BARE) == f"There is no setting {misspelt}. Did you mean {meant}?"


def test_the_settings_page_has_the_new_names_alone() -> None:
    names = re.findall(r"^\| `(KEYRACK_\w+)` \|", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
    assert sorted(names) == sorted(variable(name) for name in Settings.model_fields)
    assert {variable(new) for new in RENAMED.values()} <= set(names)


def test_the_upgrading_page_has_the_table() -> None:
    rows = re.findall(
        r"^\| `(KEYRACK_\w+)` \| `(KEYRACK_\w+)` \|$", (ROOT / "docs/upgrading-to-0.3.md").read_text(), re.MULTILINE
    )
    assert rows == [(variable(old), variable(new)) for old, new in RENAMED.items()]


def test_no_other_file_has_an_old_variable() -> None:
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(variable(old) for old in RENAMED)})(?!\w)")
    own = Path(__file__).relative_to(ROOT).as_posix()
    roots = [ROOT / name for name in SOURCES]
    files = [file for root in roots for file in (root.rglob("*") if root.is_dir() else [root])]
    found: dict[str, set[str]] = {}
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        if file.suffix not in TEXTS or not file.is_file() or name in QUOTING | {own} or "/assets/" in name:
            continue
        if names := set(pattern.findall(file.read_text(errors="replace"))):
            found[name] = names
    assert found == {}
