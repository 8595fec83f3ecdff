"""History of the schema: Alembic's revisions as SQL, and the declarations that a revision may contain.

From 0020 on a revision only expands the schema, so the previous release keeps working. `safety_check` defines what that
means, and a test enforces it. A revision that contracts declares `unused_since = "0.3.0"`: since that release, no code
uses what the revision removes.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

VERSIONS = Path(__file__).parent / "versions"

# The newest revision of each release, oldest release first. Each release adds its line.
RELEASES = {"0.1.0": "0004", "0.2.0": "0022", "0.3.0": "0068", "0.4.0": "0087"}

STOPPED = "0019"  # revisions up to this one needed a stop: no other release works beside them


def revisions() -> list[str]:
    """The revisions of this release, oldest first: file names in versions/ begin with them."""
    return sorted(file.name.split("_")[0] for file in VERSIONS.glob("[0-9]*_*.py"))


def module(revision: str) -> ModuleType:
    """The module of a revision."""
    (file,) = VERSIONS.glob(f"{revision}_*.py")
    return import_module(f"{__name__}.versions.{file.stem}")


def oldest(revision: str) -> str | None:
    """The oldest revision whose release works beside this one; None if it removes nothing.

    Raises `KeyError` if the release of `unused_since` is not published yet.
    """
    if revision <= STOPPED:
        return revision
    since = getattr(module(revision), "unused_since", None)
    return None if since is None else RELEASES[since]
