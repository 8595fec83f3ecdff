"""In charge of secrets in files: where a setting is secret, `KEYRACK_<NAME>_FILE` names a file that holds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

SECRET: JsonDict = {"secret": True}  # `json_schema_extra` of a field that may be given by a file
ENDING = "_file"
LONGEST = 65_536  # bytes of such a file


class SecretFileError(ValueError):
    """Why a secret cannot be had from its file, in words for the operator; nothing of the secret is in them."""


def variable(name: str, *, by_file: bool = False) -> str:
    """The variable of a setting, or the one that names its file."""
    return f"KEYRACK_{name}{ENDING if by_file else ''}".upper()


def is_secret(field: FieldInfo) -> bool:
    """Whether the setting may be given by a file."""
    return field.json_schema_extra == SECRET


class SecretFiles(PydanticBaseSettingsSource):
    """Reads the files when the settings are read. What they hold stands in no variable, so no child and no list of
    processes has it; a setting that was given in the call asks for no file."""

    def __init__(self, settings: type[BaseSettings]) -> None:
        super().__init__(settings)

    def __call__(self) -> dict[str, Any]:
        """Raises `SecretFileError`."""
        values: dict[str, Any] = {}
        for name, field in self.settings_cls.model_fields.items():
            value, _, _ = self.get_field_value(field, name)
            if value is not None:
                values[name] = value
        return values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        given = os.environ.get(variable(field_name, by_file=True), "")
        if not given or not is_secret(field) or field_name in self.current_state:
            return None, field_name, False
        return read(field_name, Path(given)), field_name, False


def read(name: str, file: Path, told_by: str | None = None) -> str:
    """The secret of the setting `name`, without the blanks and lines around it; `told_by` is what names its file, else
    the variable that does. Raises `SecretFileError`."""
    by_file = told_by or variable(name, by_file=True)
    if told_by is None and os.environ.get(variable(name)):
        raise SecretFileError(f"{variable(name)} and {by_file} are both given: which of them holds? Leave one out.")
    try:
        with file.open("rb") as opened:
            content = opened.read(LONGEST + 1)
        text = content.decode().strip()
    except OSError as error:
        raise SecretFileError(f"{by_file}: {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SecretFileError(f"{by_file}: {file} is no text.") from None
    if not text or len(content) > LONGEST:
        raise SecretFileError(f"{by_file}: {file} {'holds more than 64 KiB' if text else 'is empty'}.")
    return text
