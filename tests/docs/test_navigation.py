"""Navigation and links of the documents.

Each document is in the site's navigation once. Links lead to existing files and headings. Names of headings are those
of GitHub and of the site's generator.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import yaml

from tests.docs.page_runner import ROOT
from tests.support.cases import for_all

DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCED = re.compile(r"^ *(`{3,})[^`\n]*\n.*?^ *\1 *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def prose(document: Path) -> str:
    return FENCED.sub("", document.read_text())


@cache
def anchors(document: Path) -> set[str]:
    """The names of headings that are the same on GitHub and in the generator."""
    texts = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text) for text in HEADING.findall(prose(document))]
    return set(_numbered(map(_github, texts), "-")) & set(_numbered(map(_markdown, texts), "_"))


def _github(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _markdown(text: str) -> str:
    """Python-Markdown's `toc.slugify`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _numbered(names: Any, mark: str) -> list[str]:
    seen = Counter[str]()
    found: list[str] = []
    for name in names:
        found.append(f"{name}{mark}{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@for_all("document", DOCUMENTS)
def test_links_and_anchors_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(CODE.sub("", prose(document))):
        path, _, anchor = target.partition("#")
        if ":" in path:
            assert path.startswith("http"), target
            continue
        led = document.parent / path if path else document
        assert led.is_file(), target
        if anchor:
            assert anchor in anchors(led.resolve()), target


def test_links_out_of_docs_lead_only_to_pages_of_the_site() -> None:
    beside = {ROOT / name for name in staging().BESIDE}
    for document in DOCS.rglob("*.md"):
        for target in LINK.findall(CODE.sub("", prose(document))):
            led = (document.parent / target.partition("#")[0]).resolve()
            assert ":" in target or led.is_relative_to(DOCS) or led in beside, f"{document.name}: {target}"


def test_links_of_the_staged_pages_lead_to_staged_files(tmp_path: Path) -> None:
    """The README also links files that are not on the site, such as those in reference/."""
    staging().stage(tmp_path)
    for page in tmp_path.rglob("*.md"):
        for target in LINK.findall(CODE.sub("", prose(page))):
            path = target.partition("#")[0]
            assert ":" in path or (page.parent / path).exists(), f"{page.name}: {target}"


def test_every_document_is_in_the_navigation_once() -> None:
    named = list(_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    there = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert sorted(named) == sorted([*there, *staging().BESIDE.values()])


def test_the_index_leads_to_every_document() -> None:
    """docs/index.md links each document, and the README links it. The page docs/X.md links those in docs/X."""
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()
    for document in set(DOCS.rglob("*.md")) - {DOCS / "index.md"}:
        page = document.parent.with_suffix(".md")
        text = (page if page.is_file() else DOCS / "index.md").read_text()
        assert re.search(rf"\([\w./-]*{re.escape(str(document.relative_to(DOCS)))}\)", text), document


def test_the_first_screen_of_the_readme_lists_parts_and_prerequisites() -> None:
    first = (ROOT / "README.md").read_text().partition("\n## ")[0]
    assert len(first.splitlines()) <= 42
    here, _, brought = first.partition("| You bring |")
    for part in ("Server", "[Console]", "Drivers' app", "Reference boxes", "Reference phone"):
        assert f"| {part}" in here, part
    for part in ("Key boxes", "IQ units", "An app"):
        assert f"| {part} |" in brought, part
    assert "`vendor`" in brought and "KEYRACK_BRAND" in brought


def test_each_document_begins_with_its_title() -> None:
    for document in DOCUMENTS:
        text = prose(document)
        assert text.startswith("# "), document
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, document


def _pages(entries: list[Any]) -> Any:
    for entry in entries:
        ((_, value),) = entry.items()
        yield from _pages(value) if isinstance(value, list) else [value]


@cache
def staging() -> Any:
    """docs-site/stage.py, which is in no package."""
    spec = spec_from_file_location("stage", ROOT / "docs-site/stage.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
