"""Static files of the drivers' app, and of the reference phone.

All files are read once, so a server keeps its own version after its files are replaced. `sw.js` names the digest of all
files: so a browser notices every change of one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OWN = Path(__file__).parent / "app"
PHONE_IN_PACKAGE = Path(__file__).parent / "phone"  # hatch_build.py copies it there
PHONE_IN_CHECKOUT = Path(__file__).parents[3] / "reference/phone"
PHONE = "phone/"
SHELL = "index.html"
WORKER = "sw.js"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml; charset=utf-8",
    ".webmanifest": "application/manifest+json",
}
BUILD, FILES = b"%BUILD%", b"%FILES%"  # in `sw.js`: the digest, and the names of all files of the cache


class MissingPhone(Exception):
    """The modules of reference/phone are missing in this installation."""

    def __init__(self) -> None:
        super().__init__(
            "The modules of reference/phone are missing in this installation. Keyrack's wheel contains them, and a "
            "clone has them in reference/phone."
        )


@dataclass(frozen=True, slots=True)
class AppFile:
    """A file of the app."""

    media_type: str
    content: bytes
    tag: str


@cache
def load_app_files() -> Mapping[str, AppFile]:
    """All files by their paths below `/drive/`.

    Raises `MissingPhone`.
    """
    contents = dict(_contents())
    names = sorted(contents)
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name} {hashlib.sha256(contents[name]).hexdigest()}\n".encode())
    build = digest.hexdigest()[:16].encode()
    cached = " ".join(name for name in names if name not in (SHELL, WORKER)).encode()
    contents[WORKER] = contents[WORKER].replace(BUILD, build).replace(FILES, cached)
    return {name: _file(name, content) for name, content in contents.items()}


def _contents() -> Iterator[tuple[str, bytes]]:
    for path in sorted(OWN.rglob("*")):
        if path.suffix in MEDIA_TYPES:
            yield path.relative_to(OWN).as_posix(), path.read_bytes()
    phone = next((each for each in (PHONE_IN_PACKAGE, PHONE_IN_CHECKOUT) if each.is_dir()), None)
    if phone is None:
        raise MissingPhone
    for path in sorted(phone.glob("*.js")):
        yield PHONE + path.name, path.read_bytes()


def _file(name: str, content: bytes) -> AppFile:
    return AppFile(MEDIA_TYPES[Path(name).suffix], content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
