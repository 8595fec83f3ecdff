"""Renamed settings: an old name works for one release, with a warning.

`RENAMED` is the only list. Environment variables, keys of the configuration file, warnings and hints follow from it.
The release `REMOVED_IN` removes its rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from keyrack.core.settings.secret_files import variable

REMOVED_IN = "0.4"

RENAMED: Mapping[str, str] = {}
OLD_NAMES: Mapping[str, str] = {new: old for old, new in RENAMED.items()}


class DuplicateSettingError(ValueError):
    """The environment has a setting by its old and its new name."""


class RenamedVariables(PydanticBaseSettingsSource):
    """Reads environment variables that have the old name of a setting."""

    def __call__(self) -> dict[str, Any]:
        """Raises `DuplicateSettingError`."""
        found: dict[str, Any] = {}
        for old, value in old_variables().items():
            if RENAMED[old] not in self.current_state:
                found[RENAMED[old]] = value
        return found

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False  # `__call__` reads all of them


def old_variables() -> dict[str, str]:
    """The environment's values by the old names of settings. Raises `DuplicateSettingError`."""
    given = {name.upper(): value for name, value in os.environ.items() if value}
    found: dict[str, str] = {}
    for old, new in RENAMED.items():
        if variable(old) in given:
            if variable(new) in given:
                raise DuplicateSettingError(
                    f"{variable(old)} and {variable(new)} are both in the environment, and they are the same setting. "
                    f"Remove {variable(old)}, the old name."
                )
            found[old] = given[variable(old)]
    return found


def rename_note(old: str, new: str) -> str:
    """The warning about an old name.

    >>> rename_note("KEYRACK_POOL", "KEYRACK_POOL_SIZE")
    'KEYRACK_POOL is now KEYRACK_POOL_SIZE; the old name stops working in 0.4.'
    """
    return f"{old} is now {new}; the old name stops working in {REMOVED_IN}."
