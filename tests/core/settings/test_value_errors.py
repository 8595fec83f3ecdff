"""Errors of every setting: the value and what is valid, in plain words."""

from __future__ import annotations

import re

import pytest

from keyrack.cli.environment import read_settings
from keyrack.cli.output import CommandFailed
from keyrack.core.settings import Settings, is_secret, variable
from tests.core.settings.test_config_file import BARE
from tests.support.cases import for_all

# Parts of regular expressions and of pydantic's texts
FOREIGN = re.compile(
    r"[Ii]nput should|should match|Value error|pattern|pars|valid (integer|number|boolean)|\\[sd^]|\^|\$'"
)
BAD = ("nonsense", " \t", "-1", "1e999", "99999999999999", "::", "^", "0x", "{", "https://", "/" * 2_000)


NAMES = [name for name in Settings.model_fields if name != "config"]
ERROR = re.compile(r" (KEYRACK_\w+): ")


def errors(value: str) -> dict[str, str]:
    """The errors of all settings that reject the value, by variable."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(CommandFailed) as failure:
        for name in BARE:
            patch.delenv(name, raising=False)
        for name in NAMES:
            patch.setenv(variable(name), value)
        read_settings()
    first, *told = ERROR.split(str(failure.value))
    assert first == "A setting is not valid."
    said = dict(zip(told[::2], told[1::2], strict=True))
    assert len(said) == len(told) / 2, told
    return said


@pytest.fixture(scope="module")
def every_error() -> dict[str, dict[str, str]]:
    """The errors of all settings, by value."""
    return {value: errors(value) for value in BAD}


@for_all("name", NAMES)
def test_an_error_names_what_is_valid_in_plain_words(name: str, every_error: dict[str, dict[str, str]]) -> None:
    field = Settings.model_fields[name]
    said = {value: texts[variable(name)] for value, texts in every_error.items() if variable(name) in texts}
    for value, text in said.items():
        assert not FOREIGN.search(text.replace(value, "")), text
        assert len(text) < 400, text
    if field.metadata:  # it has a bound or a pattern
        assert said or name == "mqtt_client", "one of the values is not valid"
        for value, text in said.items():
            assert " is not " in text
            assert (f"'{value[:60]}" in text) is not is_secret(field), text


def test_every_error_is_that_of_a_setting(every_error: dict[str, dict[str, str]]) -> None:
    named = {name for texts in every_error.values() for name in texts}
    assert named <= {variable(name) for name in NAMES}
    assert len(named) > 100


def test_every_pattern_has_a_form_in_words() -> None:
    for name, field in Settings.model_fields.items():
        patterns = [part for part in field.metadata if getattr(part, "pattern", None)]
        assert not patterns or any(hasattr(part, "words") for part in field.metadata), name
