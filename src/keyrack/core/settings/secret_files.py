"""Secret files: `KEYRACK_<NAME>_FILE` names a file that contains a secret setting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

SECRET: JsonDict = {"secret": True}  # `json_schema_extra` of a setting that a file may contain
ENDING = "_file"
LONGEST = 65_536  # bytes of a secret file


class SecretFileError(ValueError):
    """A secret file that cannot be used. The text is for the operator and does not contain the secret."""


def variable(name: str, *, by_file: bool = False) -> str:
    """The environment variable of a setting, or the one that names its file."""
    return f"KEYRACK_{name}{ENDING if by_file else ''}".upper()


def is_secret(field: FieldInfo) -> bool:
    """Whether a file may contain the setting."""
    return field.json_schema_extra == SECRET


class SecretFiles(PydanticBaseSettingsSource):
    """Reads the secret files when the settings are read.

    The secrets are in no environment variable, so child processes do not inherit them. A setting that is passed in the
    call reads no file.
    """

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
    """The secret of the setting `name`, without surrounding white space.

    Errors call the file by `told_by`; without it, by the variable that names the file. Raises `SecretFileError`.
    """
    by_file = told_by or variable(name, by_file=True)
    if told_by is None and os.environ.get(variable(name)):
        raise SecretFileError(f"{variable(name)} and {by_file} are both set. Remove one of the two.")
    try:
        with file.open("rb") as opened:
            content = opened.read(LONGEST + 1)
        text = content.decode().strip()
    except OSError as error:
        raise SecretFileError(f"{by_file}: {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SecretFileError(f"{by_file}: {file} is not a text in UTF-8.") from None
    if not text or len(content) > LONGEST:
        raise SecretFileError(f"{by_file}: {file} {'is larger than 64 KiB' if text else 'is empty'}.")
    return text
