"""In charge of settings of checkpoints: what signs them, how often, how long each is kept, and where copies go."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class Checkpoints(BaseSettings):
    """Settings of checkpoints of the log of changes."""

    section: ClassVar[str] = "checkpoints"

    checkpoint_key_file: Path | None = Field(
        default=None,
        description="File with the key that signs checkpoints of the log of changes: 32 bytes in base64, the same for "
        "every worker; while it is being changed several, one a line. `keyrack audit keys` makes it. Default: "
        "`checkpoint.key` in the state directory, where it is made for the embedded database. Without it there are no "
        "checkpoints, and `keyrack status` says so.",
    )
    checkpoint_seconds: float = Field(
        default=60.0,
        ge=1,
        le=86_400,
        description="Seconds between two checkpoints of a log to which something was added.",
    )
    checkpoint_days: int = Field(
        default=7,
        ge=1,
        le=3_650,
        description="Days for which the database keeps every checkpoint; of older days it keeps the last one.",
    )
    checkpoint_directory: Path | None = Field(
        default=None,
        description="Directory, a whole path, into which workers write a copy of each checkpoint, a file for each: on "
        "another machine, where nobody who administers the database may change it "
        "([checkpoints.md](checkpoints.md#publish-copies)).",
    )

    @field_validator("checkpoint_directory")
    @classmethod
    def _is_whole(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError(f"'{value}' is no whole path, from / on")
        return value
