"""History of the schema: Alembic's revisions as SQL, and the declarations that a revision may contain.

From 0020 on a revision only expands: the release before it goes on working (`safety_check` says what that means, and a
test holds it). One that contracts says `unused_since = "0.3.0"`: since that release nobody uses what it takes away.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

VERSIONS = Path(__file__).parent / "versions"

# Of each release its newest revision, oldest release first: a release adds its line
RELEASES = {"0.1.0": "0004", "0.2.0": "0022", "0.3.0": "0068"}

STOPPED = "0019"  # up to here a revision was made for a stop: no other release works beside it


def revisions() -> list[str]:
    """Those that this release knows, oldest first: the name of a file in versions/ begins with one."""
    return sorted(file.name.split("_")[0] for file in VERSIONS.glob("[0-9]*_*.py"))


def module(revision: str) -> ModuleType:
    """The revision's own file."""
    (file,) = VERSIONS.glob(f"{revision}_*.py")
    return import_module(f"{__name__}.versions.{file.stem}")


def oldest(revision: str) -> str | None:
    """The oldest revision whose release works beside this one; None where it takes nothing away.

    Raises `KeyError`: the release of `unused_since` is not out yet.
    """
    if revision <= STOPPED:
        return revision
    since = getattr(module(revision), "unused_since", None)
    return None if since is None else RELEASES[since]
