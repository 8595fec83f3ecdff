"""The manifest of an export: customer, time, and files with checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

FORMAT = "keyrack-export"
VERSION = 1  # of the file format; other versions are rejected
NAME = "manifest.json"
CHUNK = 1 << 20  # bytes


class ExportIncomplete(Exception):
    """A directory is not an importable export; the text has the reason."""


class _ManifestHeader(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class ExportFile(_ManifestHeader):
    """A file with its expected size and checksum."""

    name: str
    rows: int
    bytes: int
    sha256: str


class CustomerRecord(_ManifestHeader):
    """The customer, with its settings and counters."""

    id: int
    name: str
    created_at: str
    history_days: int | None
    keeps_positions: bool
    changes_days: int | None = None
    driver_phone: str | None = None
    driver_shows_place: bool = False
    driver_extension_hours: int = 0
    bookings: str = "shared"
    bookings_enforced: bool = False
    booking_gap: int = 0
    applied: int  # the number of the last applied operation
    last_event: int


class Manifest(_ManifestHeader):
    """The file `manifest.json`. It is written last, so a directory without it is incomplete."""

    format: str = FORMAT
    version: int = VERSION
    release: str
    revision: str
    moment: str
    customer: CustomerRecord
    files: list[ExportFile]
    months: list[str] = []  # months with history
    left: dict[str, int] = {}  # counts of data that the files omit: secrets, and data not of the customer alone

    def write(self, directory: Path) -> None:
        text = json.dumps(self.model_dump(by_alias=True), indent=2, ensure_ascii=False)
        (directory / NAME).write_text(text + "\n", "utf-8")

    def rows_of(self, kind: str) -> int:
        return next((file.rows for file in self.files if file.name == f"{kind}.jsonl"), 0)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(directory: Path) -> Manifest:
    """The manifest of a directory, after a check of all files. Raises `ExportIncomplete`."""
    path = directory / NAME
    try:
        value: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ExportIncomplete(f"{directory} has no {NAME}: it is not an export, or an incomplete one.") from None
    except ValueError as error:
        raise ExportIncomplete(f"{path} is not valid JSON: {error}.") from None
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if members.get("format") != FORMAT:
        raise ExportIncomplete(f"{path} is not the manifest of an export.")
    if members.get("version") != VERSION:
        raise ExportIncomplete(f"{path} has version {members.get('version')}; this release reads version {VERSION}.")
    try:
        manifest = Manifest.model_validate(members)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ExportIncomplete(f"{path}, {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}.") from None
    for file in manifest.files:
        _check(directory, file)
    return manifest


def _check(directory: Path, file: ExportFile) -> None:
    path = directory / file.name
    if Path(file.name).name != file.name or not path.is_file():
        raise ExportIncomplete(f"{path} is missing.")
    if path.stat().st_size != file.bytes or digest(path) != file.sha256:
        raise ExportIncomplete(f"{path} was changed: its checksum does not match the manifest.")


def rows(directory: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The rows of a kind; none if the export has no file for it."""
    path = directory / f"{kind}.jsonl"
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file)
