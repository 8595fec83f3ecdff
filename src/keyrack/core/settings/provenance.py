"""The origin of each setting, and its value without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, SecretStr
from pydantic_settings import BaseSettings

from keyrack.core.settings.config_file import KEYS, VARIABLE, entries, masked, named, nearest
from keyrack.core.settings.renamed import RENAMED
from keyrack.core.settings.secret_files import ENDING, is_secret, variable

PREFIX = "KEYRACK_"
SUPERVISED = "KEYRACK_SUPERVISED"  # set in the environment of a supervisor's child processes
# Variables that are not settings: output of `keyrack demo` for a shell, options of `keyrack import api`, and variables
# of the child processes, tests and tools of this project
OTHERS = frozenset(
    PREFIX + name
    for name in (
        "URL", "API_KEY", "CLIENT_ID", "CLIENT_SECRET", "USERNAME", "PASSWORD", "CUSTOMER_ID", "DEVICE_KEY", "SDK_KEY",
        "TOKEN", "PROFILE", "SOURCE_URL", "SOURCE_API_KEY", "SOURCE_API_KEY_FILE", "SOURCE_USERNAME", "SOURCE_PASSWORD",
        "SOURCE_PASSWORD_FILE", "SOURCE_CUSTOMER_ID", "SOURCE_BRAND", "LONG", "FAULTS", "HISTORIES", "ABUSE",
        "UPGRADES", "CLUSTER", "CLIENTS", "DIST", "MOVING", "SITE", "BASE", "PODMAN", "PODMAN_RUN",
        "TEST_DATABASE_URL", "DRILL_NAMESPACE", "SUPERVISED", "DRIVER_EMAIL", "DRIVER_PASSWORD",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a setting: its kind and its name."""

    kind: Literal["default", "environment", "file", "configuration"]
    where: str | None = None


DEFAULT = Origin("default")


def origins_of(settings: type[BaseSettings]) -> dict[str, Origin]:
    """The origin of each setting: the source with the highest precedence that sets it.

    Raises `ConfigurationError`.
    """
    given = {name.upper(): value for name, value in os.environ.items() if value}
    path = named()
    written = {} if path is None else entries(path, settings)
    origins: dict[str, Origin] = {}
    for name, field in settings.model_fields.items():
        by_file = variable(name, by_file=True)
        if is_secret(field) and by_file in given:
            origins[name] = Origin("file", f"{given[by_file]}, by {by_file}")
        elif variable(name) in given:
            origins[name] = Origin("environment", variable(name))
        elif name in KEYS and any(variable(key) in given for key in KEYS):
            origins[name] = DEFAULT
        elif name in written:
            origins[name] = Origin("configuration", f"{path}:{written[name].line}")
        elif name + ENDING in written:
            entry = written[name + ENDING]
            origins[name] = Origin("file", f"{entry.value}, by {path}:{entry.line}")
        else:
            origins[name] = DEFAULT
    return origins


def printable(value: object) -> Any:
    """A value for output: a number, text, boolean or None. A secret is `***`."""
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):  # tables of the configuration file
        tables = cast("tuple[BaseModel, ...]", value)
        return [{name: printable(member) for name, member in table.model_dump().items()} for table in tables]
    return masked(value) if isinstance(value, str) else value


def unknown(settings: type[BaseSettings], environment: Mapping[str, str]) -> dict[str, str | None]:
    """KEYRACK_ variables that are not settings, each with the most similar setting."""
    known_variables = {variable(name) for name in settings.model_fields}
    known_variables |= {
        variable(name, by_file=True) for name, field in settings.model_fields.items() if is_secret(field)
    }
    renamed = {variable(old): variable(new) for old, new in RENAMED.items()}
    names = known_variables | renamed.keys()
    passed = names | OTHERS
    strange = [name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in passed]
    meant = {name: nearest(name.upper(), names - {VARIABLE}) for name in sorted(strange)}
    return {name: renamed.get(suggestion, suggestion) if suggestion else None for name, suggestion in meant.items()}
