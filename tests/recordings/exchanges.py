"""Exchanges as readable text files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"
LONGEST = 2_000  # characters of the longest body that is kept whole
BEGINNING = 500  # kept characters of a longer body
MARK = "═══ "


@dataclass(frozen=True)
class Exchange:
    """A request and its response, with varying values masked."""

    file: str
    title: str  # unique title
    text: str
    whole: str  # the text with unshortened bodies


def shorten(body: str) -> str:
    """Shorten a long body to its beginning, its hash and its length."""
    if len(body) <= LONGEST:
        return body
    digest = hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{body[:BEGINNING]}\n… {len(body)} characters, sha256 {digest}"


def file_name(group: str) -> str:
    """The file name of a group of endpoints."""
    return re.sub(r"[^a-z0-9]+", "-", group.lower()).strip("-") + ".txt"


def write(exchanges: Iterable[Exchange], directory: Path, *, is_whole: bool = False) -> None:
    """Write exchanges into the files of a directory. Existing files are replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.txt"):
        old.unlink()
    files: dict[str, list[str]] = {}
    for each in exchanges:
        files.setdefault(each.file, []).append(f"{MARK}{each.title}\n{each.whole if is_whole else each.text}\n")
    for name, parts in files.items():
        (directory / name).write_text("".join(parts), "utf-8", "surrogateescape", newline="")


def texts(exchanges: Iterable[Exchange]) -> dict[str, str]:
    """The texts of exchanges, by file and title, in order."""
    return {f"{each.file}: {each.title}": each.text for each in exchanges}


def read(directory: Path = DATA) -> dict[str, str]:
    """The texts of a directory's exchanges, by file and title."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.txt")):
        content = path.read_bytes().decode("utf-8", "surrogateescape")
        for part in content.split(MARK)[1:]:
            title, _, text = part.partition("\n")
            found[f"{path.name}: {title}"] = text.removesuffix("\n")
    return found
