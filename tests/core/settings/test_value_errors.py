"""Errors of every setting: the value and what is valid, in plain words."""

from __future__ import annotations

import re

import pytest

from keyrack.cli.environment import read_settings
from keyrack.cli.output import CommandFailed
from keyrack.core.settings import Settings, is_secret, variable
from tests.core.settings.test_config_file import BARE

# Parts of regular expressions and of pydantic's texts
FOREIGN = re.compile(
    r"[Ii]nput should|should match|Value error|pattern|pars|valid (integer|number|boolean)|\\[sd^]|\^|\$'"
)
BAD = ("nonsense", " \t", "-1", "1e999", "99999999999999", "::", "^", "0x", "{", "https://", "/" * 2_000)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BARE:
        monkeypatch.delenv(name, raising=False)


def errors(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The errors of the values that are not valid, by value."""
    said: dict[str, str] = {}
    for value in BAD:
        monkeypatch.setenv(variable(name), value)
        try:
            read_settings()
        except CommandFailed as error:
            said[value] = str(error)
    return said


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name != "config"])
def test_an_error_names_what_is_valid_in_plain_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    field = Settings.model_fields[name]
    said = errors(name, monkeypatch)
    for value, text in said.items():
        assert text.startswith(f"A setting is not valid. {variable(name)}: "), text
        assert not FOREIGN.search(text.replace(value, "")), text
        assert len(text) < 400, text
    if field.metadata:  # it has a bound or a pattern
        assert said or name == "mqtt_client", "one of the values is not valid"
        for value, text in said.items():
            assert " is not " in text
            assert (f"'{value[:60]}" in text) is not is_secret(field), text


def test_every_pattern_has_a_form_in_words() -> None:
    for name, field in Settings.model_fields.items():
        patterns = [part for part in field.metadata if getattr(part, "pattern", None)]
        assert not patterns or any(hasattr(part, "words") for part in field.metadata), name
