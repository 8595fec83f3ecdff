"""Collect the pages of the documentation's site: docs/ and the documents of the repository's root.

    python docs-site/stage.py .site/pages

A site generator reads one directory. So this program copies the documents beside docs/ into it under the names of
`BESIDE`, and rewrites the links between the two. A link to another file of the repository becomes plain text, because
the site does not have that file. Nothing else is changed.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Document of the repository -> page of the site
BESIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
}
LICENSE = {"LICENSE": "license.txt"}
NAMES = {**BESIDE, **LICENSE}
UP = re.compile(rf"\]\(((?:\.\./)+)({'|'.join(map(re.escape, NAMES))})(#[^)]*)?\)")
DOWN = re.compile(rf"\]\((?:docs/|({'|'.join(map(re.escape, NAMES))}))")
OFF_SITE = re.compile(rf"\[([^\]]+)\]\((?!#|docs/|[a-z]+:|{'|'.join(map(re.escape, NAMES))})[^)]*\)")
COPIED = {".md", ".png", ".svg", ".css", ".json"}


def of_docs(text: str) -> str:
    """A document of docs/, with links to the pages of documents beside docs/."""
    return UP.sub(lambda link: f"]({link[1].removeprefix('../')}{NAMES[link[2]]}{link[3] or ''})", text)


def of_beside(text: str) -> str:
    """A document beside docs/, with the links of a document in docs/."""
    return DOWN.sub(lambda link: f"]({NAMES[link[1]] if link[1] else ''}", OFF_SITE.sub(r"\1", text))


def stage(pages: Path) -> None:
    """Write all pages and pictures into the directory, which is deleted first."""
    shutil.rmtree(pages, ignore_errors=True)
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.suffix in COPIED:
            target = pages / file.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":
                target.write_text(of_docs(file.read_text()))
            else:
                shutil.copyfile(file, target)
    for name, page in BESIDE.items():
        (pages / page).write_text(of_beside((ROOT / name).read_text()))
    for name, file in LICENSE.items():
        shutil.copyfile(ROOT / name, pages / file)
    shutil.copyfile(Path(__file__).parent / "style.css", pages / "style.css")


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
