"""The configuration file: TOML with the names of settings in lower case, without KEYRACK_.

A key is above all sections, or in the section that the class of the setting names as `section`. An unknown key is an
error: a limit or a network that the operator believes to have set must take effect.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from keyrack.core.settings.renamed import RENAMED, rename_note
from keyrack.core.settings.secret_files import ENDING, is_secret, read

VARIABLE = "KEYRACK_CONFIG"
LONGEST = 1_000_000  # bytes
ITSELF = "config"
PASSWORD = re.compile(r"(://[^/@:\s]*:)([^@\s]+)(@)|([?&](?:password|sslpassword)=)([^&\s]+)")
# If one of these is set in a source with precedence, the file's value of the other one is ignored
KEYS = frozenset(("master_key", "master_key_file"))


class ConfigurationError(ValueError):
    """A configuration file that cannot be used. The text is for the operator and repeats no value."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of the file, as text, with its line. Tables are text in JSON."""

    value: str
    line: int


def named() -> Path | None:
    """The configuration file, if there is one."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else None


def sections(settings: type[BaseSettings]) -> dict[str, str]:
    """The section of each setting; `` for those above all sections."""
    section_by_name = dict.fromkeys(settings.model_fields, "")
    for base in settings.__mro__:
        if section := cast("str | None", vars(base).get("section")):
            section_by_name |= dict.fromkeys(base.__annotations__.keys() & section_by_name.keys(), section)
    return section_by_name


def section_titles(settings: type[BaseSettings]) -> dict[str, str]:
    """The heading of each section in docs/settings.md."""
    return {vars(base)["section"]: vars(base)["title"] for base in settings.__mro__ if "section" in vars(base)}


def entries(path: Path, settings: type[BaseSettings]) -> dict[str, Entry]:
    """The file's entries by setting, with secret files.

    Raises `ConfigurationError`.
    """
    text = _text(path)
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}.") from None
    places = sections(settings)
    for name, field in settings.model_fields.items():
        if is_secret(field):
            places[name + ENDING] = places[name]
    entry_by_name: dict[str, Entry] = {}
    for section, values in _by_section(whole, path, set(places.values())):
        for name, value in values.items():
            line = _line(text, name)
            at = f"{path}, line {line}"
            if name not in places or name == ITSELF:
                raise ConfigurationError(f"{at}: {_unknown(name, places)}")
            if section and section != places[name]:
                right = f"into the section [{places[name]}]" if places[name] else "above the first section"
                raise ConfigurationError(f"{at}: {name} is in the section [{section}]. Move it {right}.")
            if name in entry_by_name:
                raise ConfigurationError(f"{at}: {name} appears twice.")
            entry_by_name[name] = Entry(_plain(value, f"{at}: {name}"), line)
    _check_secrets(path, entry_by_name, settings.model_fields)
    return {name: entry for name, entry in entry_by_name.items() if entry.value}


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar name."""
    return next(iter(difflib.get_close_matches(name, list(names), 1, 0.7)), None)


def masked(text: str) -> str:
    """An address without its password.

    >>> masked("postgresql://keyrack:s3cret@db1,db2/keyrack?sslmode=require&password=s3cret")
    'postgresql://keyrack:***@db1,db2/keyrack?sslmode=require&password=***'
    """
    return PASSWORD.sub(lambda match: f"{match[1] or match[4]}***{match[3] or ''}", text)


class ConfigurationFile(PydanticBaseSettingsSource):
    """Reads the configuration file; all other sources take precedence."""

    def __call__(self) -> dict[str, Any]:
        """Raises `ConfigurationError`, `SecretFileError`."""
        path = named()
        if path is None:
            return {}
        values: dict[str, Any] = {}
        for name, entry in entries(path, self.settings_cls).items():
            setting = name.removesuffix(ENDING) if name not in self.settings_cls.model_fields else name
            if setting in self.current_state or (setting in KEYS and KEYS & self.current_state.keys()):
                continue
            values[setting] = entry.value if setting == name else read(setting, Path(entry.value), f"{path}: {name}")
        return values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False  # `__call__` reads all of them


def _text(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(LONGEST + 1)
        if len(content) > LONGEST:
            raise ConfigurationError(f"The configuration file {path} is larger than {LONGEST:,} bytes.")
        return content.decode()
    except OSError as error:
        raise ConfigurationError(f"The configuration file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"The configuration file {path} is not a text in UTF-8.") from None


def _by_section(whole: Mapping[str, Any], path: Path, sections: set[str]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield "", {name: value for name, value in whole.items() if not isinstance(value, dict)}
    for name, value in whole.items():
        if isinstance(value, dict):
            if name not in sections or not name:
                meant = nearest(name, sections)
                valid = ", ".join(sorted(sections - {""}))
                hint = f"Did you mean [{meant}]?" if meant else f"The sections are: {valid}."
                raise ConfigurationError(f"{path}: there is no section [{name}]. {hint}")
            yield name, value


def _unknown(name: str, names: Iterable[str]) -> str:
    if name in RENAMED:
        return rename_note(name, RENAMED[name])
    bare = name.lower().removeprefix("keyrack_")
    others = [candidate for candidate in (*names, *RENAMED) if candidate != ITSELF]
    meant = bare if bare in others else nearest(bare, others)
    meant = RENAMED.get(meant, meant) if meant else None
    return f"there is no setting {name}." + (f" Did you mean {meant}?" if meant else " See docs/settings.md.")


def _plain(value: object, label: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in cast("list[object]", value)):
        return json.dumps(value, default=str)
    raise ConfigurationError(f"{label} must be a quoted string, a number, true or false.")


def _line(text: str, name: str) -> int:
    match = re.search(
        rf"^[ \t]*(?:\[\[[ \t]*{re.escape(name)}\b|[\"']?{re.escape(name)}[\"']?[ \t]*=)", text, re.MULTILINE
    )
    return text.count("\n", 0, match.start()) + 1 if match else 1


def _check_secrets(path: Path, entry_by_name: Mapping[str, Entry], fields: Mapping[str, FieldInfo]) -> None:
    """Raises `ConfigurationError` if every user of the machine can read a secret."""
    for name, entry in entry_by_name.items():
        if name + ENDING in entry_by_name:
            raise ConfigurationError(f"{path}: {name} and {name + ENDING} are both set. Remove one of the two.")
        secret = name in fields and "Secret" in str(fields[name].annotation)
        if (secret or PASSWORD.search(entry.value)) and stat.S_IMODE(path.stat().st_mode) & 0o007:
            raise ConfigurationError(
                f"{path}, line {entry.line}: {name} is secret, and every user of this machine can read the file. Run "
                f"`chmod o= {path}`, or move the secret to a file of its own."
            )
