"""Renamed settings: each old name works with one warning, and never together with the new one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import (
    OLD_NAMES,
    REMOVED,
    REMOVED_IN,
    RENAMED,
    ConfigurationError,
    DuplicateSettingError,
    Origin,
    Settings,
    is_secret,
    origins_of,
    rename_notes,
    sections,
    unknown,
    variable,
)
from tests.cli.test_startup_errors import refused_here
from tests.core.settings.test_config_file import BARE, written
from tests.support.cases import for_all
from tests.support.servers import Process

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


def other_than_default(name: str) -> tuple[Any, str]:
    """A valid value that is not the default, and its text in an environment."""
    default = Settings.model_fields[name].default
    special: dict[str, tuple[Any, str]] = {
        "changelog_retention_days": (800, "800"),
        "database_ha": (True, "true"),
        "max_client_connections": (7, "7"),
        "traces_sample_ratio": (0.25, "0.25"),
    }
    if name in special:
        return special[name]
    if isinstance(default, bool):
        return not default, str(not default).lower()
    if isinstance(default, str):
        return "10.0.0.0/8", "10.0.0.0/8"
    return default + 1, str(default + 1)


def toml(name: str, text: str) -> str:
    return f"{name} = {text}" if re.fullmatch(r"true|false|[0-9.]+", text) else f'{name} = "{text}"'


def note(old: str, new: str) -> str:
    return f"{old} is now {new}; the old name stops working in 0.4."


def test_the_table_names_settings() -> None:
    assert REMOVED_IN == "0.4"
    assert set(RENAMED.values()) <= Settings.model_fields.keys()
    assert not RENAMED.keys() & Settings.model_fields.keys()
    assert len(OLD_NAMES) == len(RENAMED)  # no new name has two old ones
    # `SecretFiles` knows no old names
    assert not [new for new in RENAMED.values() if is_secret(Settings.model_fields[new])]


def test_variables_by_their_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for old, new in RENAMED.items():
        monkeypatch.setenv(variable(old), other_than_default(new)[1])
    settings, origins = Settings(), origins_of(Settings)
    for old, new in RENAMED.items():
        assert getattr(settings, new) == other_than_default(new)[0], new
        assert origins[new] == Origin("environment", variable(old), variable(old))
    assert rename_notes(Settings) == [note(variable(old), variable(new)) for old, new in RENAMED.items()]
    assert unknown(Settings, os.environ) == {}


def test_variables_by_their_new_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for old, new in RENAMED.items():
        monkeypatch.setenv(variable(new), other_than_default(new)[1])
        monkeypatch.setenv(variable(old), "")  # an empty variable is as none
    settings, origins = Settings(), origins_of(Settings)
    for new in RENAMED.values():
        assert getattr(settings, new) == other_than_default(new)[0], new
        assert origins[new] == Origin("environment", variable(new))
    assert (rename_notes(Settings), unknown(Settings, os.environ)) == ([], {})


@ROWS
def test_both_variables_are_an_error(row: tuple[str, str]) -> None:
    old, new = row
    _, text = other_than_default(new)
    why = (
        f"{variable(old)} and {variable(new)} are the same setting, and both are in the environment. "
        f"Remove {variable(old)}, the old name."
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable(old), text)
        patch.setenv(variable(new), text)
        for read in (Settings, lambda: origins_of(Settings), lambda: rename_notes(Settings)):
            with pytest.raises(DuplicateSettingError, match=f"^{re.escape(why)}$"):
                read()


def lines_in_sections(names: Mapping[str, str]) -> list[str]:
    """Lines of a file with all these settings in their sections. `names` has their names in the file."""
    by_section: dict[str, list[str]] = {}
    for new, name in names.items():
        by_section.setdefault(sections(Settings)[new], []).append(toml(name, other_than_default(new)[1]))
    return [line for section, lines in by_section.items() for line in (f"[{section}]", *lines)]


@pytest.mark.parametrize("has_sections", [False, True])
def test_keys_by_their_old_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_sections: bool) -> None:
    old_names = {new: old for old, new in RENAMED.items()}
    plain = [toml(old, other_than_default(new)[1]) for old, new in RENAMED.items()]
    lines = lines_in_sections(old_names) if has_sections else plain
    config = written(tmp_path / "c", "\n".join(lines))
    monkeypatch.setenv("KEYRACK_CONFIG", config)
    settings, origins = Settings(), origins_of(Settings)
    notes: list[str] = []
    for old, new in RENAMED.items():
        value, text = other_than_default(new)
        line = lines.index(toml(old, text)) + 1
        assert getattr(settings, new) == value, new
        assert origins[new] == Origin("configuration", f"{config}:{line}", old)
        notes.append(f"{config}, line {line}: {note(old, new)}")
    assert rename_notes(Settings) == notes


def test_keys_by_their_new_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = lines_in_sections({new: new for new in RENAMED.values()})
    config = written(tmp_path / "c", "\n".join(lines))
    monkeypatch.setenv("KEYRACK_CONFIG", config)
    settings, origins = Settings(), origins_of(Settings)
    for new in RENAMED.values():
        value, text = other_than_default(new)
        assert getattr(settings, new) == value, new
        assert origins[new] == Origin("configuration", f"{config}:{lines.index(toml(new, text)) + 1}")
    assert rename_notes(Settings) == []


@ROWS
def test_both_keys_are_an_error(row: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, new = row
    _, text = other_than_default(new)
    section = f"\n[{sections(Settings)[new]}]\n"
    for first, second in ((old, new), (new, old)):
        for between, line in (("\n", 2), (section, 3)):
            config = written(tmp_path / "c", toml(first, text) + between + toml(second, text))
            monkeypatch.setenv("KEYRACK_CONFIG", config)
            why = (
                f"{config}: {first} in line 1 and {second} in line {line} are the same setting. "
                f"Remove {old}, the old name."
            )
            with pytest.raises(ConfigurationError, match=f"^{re.escape(why)}$"):
                Settings()


def test_the_environment_overrides_the_file_by_any_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = written(tmp_path / "c", "\npostgres_log_max_bytes = 300000\n")
    monkeypatch.setenv("KEYRACK_CONFIG", config)
    monkeypatch.setenv("KEYRACK_POSTGRES_LOG", "400000")
    assert Settings().postgres_log_max_bytes == 400_000
    renamed = note("KEYRACK_POSTGRES_LOG", "KEYRACK_POSTGRES_LOG_MAX_BYTES")
    assert rename_notes(Settings) == [f"{renamed} It overrides postgres_log_max_bytes in {config}, line 2."]
    monkeypatch.delenv("KEYRACK_POSTGRES_LOG")
    monkeypatch.setenv("KEYRACK_POSTGRES_LOG_MAX_BYTES", "500000")
    written(tmp_path / "c", "postgres_log = 300000\n")
    assert Settings().postgres_log_max_bytes == 500_000
    assert origins_of(Settings)["postgres_log_max_bytes"] == Origin("environment", "KEYRACK_POSTGRES_LOG_MAX_BYTES")
    assert rename_notes(Settings) == [f"{config}, line 1: {note('postgres_log', 'postgres_log_max_bytes')}"]


def test_the_case_of_a_variable_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("keyrack_stop_delay", "3")
    assert Settings().shutdown_delay_seconds == 3
    assert rename_notes(Settings) == [note("KEYRACK_STOP_DELAY", "KEYRACK_SHUTDOWN_DELAY_SECONDS")]


@pytest.mark.parametrize("name", ["stop_delay", "connections", "changes_days"])
def test_the_call_takes_no_name_that_is_no_setting(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Settings(**{name: 3})
    with pytest.raises(TypeError, match=f"^there is no setting {name}$"):
        Settings().model_copy(update={name: 3})


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


def test_keyrack_settings_shows_the_new_name_and_the_old_one(tmp_path: Path) -> None:
    config = written(tmp_path / "c", "[edge]\nmax_body = 2000\n")
    env = BARE | {"KEYRACK_CONFIG": config, "KEYRACK_STOP_DELAY": "3", "COLUMNS": "300"}
    result = CliRunner(env=env).invoke(application("settings"), ["settings", "--changed"])
    rows = [re.split(r"  +", line.rstrip()) for line in result.stdout.splitlines()]
    assert ["max_body_bytes", "2000", f"{config}:2 (old name max_body)"] in rows
    assert ["shutdown_delay_seconds", "3.0", "KEYRACK_STOP_DELAY (old name)"] in rows
    assert result.stderr.splitlines() == [
        f"keyrack: {config}, line 2: {note('max_body', 'max_body_bytes')}",
        f"keyrack: {note('KEYRACK_STOP_DELAY', 'KEYRACK_SHUTDOWN_DELAY_SECONDS')}",
    ]
    result = CliRunner(env=env).invoke(application("settings"), ["settings", "--json", "KEYRACK_STOP_DELAY"])
    row = json.loads(result.stdout)
    assert (row["name"], row["variable"]) == ("shutdown_delay_seconds", "KEYRACK_SHUTDOWN_DELAY_SECONDS")
    assert (row["where"], row["old_name"]) == ("KEYRACK_STOP_DELAY", "KEYRACK_STOP_DELAY")


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_is_accepted_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    assert name not in Settings.model_fields
    warning = "{} no longer has an effect. Remove it; 0.4 does not know the name."
    config = written(tmp_path / "c", f"[{REMOVED[name]}]\n{name} = 1\n")
    monkeypatch.setenv("KEYRACK_CONFIG", config)
    monkeypatch.setenv(variable(name), "not even a number")
    Settings()
    assert rename_notes(Settings) == [
        warning.format(variable(name)), f"{config}, line 2: {warning.format(name)}"
    ]  # fmt: skip
    assert unknown(Settings, os.environ) == {}
    assert set(origins_of(Settings)) == Settings.model_fields.keys()


def test_a_hint_never_names_a_removed_setting() -> None:
    for name in REMOVED:
        assert unknown(Settings, {variable(name) + "X": "1"})[variable(name) + "X"] != variable(name)


def test_an_invalid_value_is_reported_by_the_name_that_gives_it(tmp_path: Path) -> None:
    why = "'x' is not a number from 0 to 300."
    assert refused_here("settings", **BARE, KEYRACK_STOP_DELAY="x") == (
        f"A setting is not valid. KEYRACK_STOP_DELAY: {why}"
    )
    config = written(tmp_path / "c", "stop_delay = 'x'")
    assert refused_here("settings", **BARE, KEYRACK_CONFIG=config) == (
        f"A setting is not valid. {config}:1, stop_delay: {why}"
    )


def test_a_command_reports_two_names_of_one_setting() -> None:
    env = BARE | {"KEYRACK_STOP_DELAY": "3", "KEYRACK_SHUTDOWN_DELAY_SECONDS": "3"}
    for command in ("settings", "customer list", "migrate --check", "serve"):
        assert refused_here(command, **env) == (
            "KEYRACK_STOP_DELAY and KEYRACK_SHUTDOWN_DELAY_SECONDS are the same setting, and both are in the "
            "environment. Remove KEYRACK_STOP_DELAY, the old name."
        )


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_warns_once_and_its_children_do_not(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.undo()  # a server needs the master key
    config = written(tmp_path / "keyrack.toml", "max_body = 2000\n")
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_CONFIG": config, "KEYRACK_STOP_DELAY": "0"}
    log = tmp_path / "log"
    process = Process("serve", "--processes", str(processes), "--port", "0", "--json", env=env, log=log)
    try:
        assert process.popen.stdout is not None
        assert "url" in json.loads(process.popen.stdout.readline())
    finally:
        assert process.stop() == 0
    assert [line for line in log.read_text().splitlines() if "old name" in line] == [
        f"keyrack: {config}, line 1: {note('max_body', 'max_body_bytes')}",
        f"keyrack: {note('KEYRACK_STOP_DELAY', 'KEYRACK_SHUTDOWN_DELAY_SECONDS')}",
    ]


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
