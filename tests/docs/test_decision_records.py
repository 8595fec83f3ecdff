"""docs/decisions: each record is short, has the same sections, and is in the index in order."""

from __future__ import annotations

import re

from tests.docs.code_blocks import ROOT

INDEX = ROOT / "docs/decisions.md"
RECORDS = sorted((ROOT / "docs/decisions").glob("*.md"))
SECTIONS = ["Context", "Decision", "Consequences"]
MAX_WORDS = 250


def test_each_record_is_short_and_has_its_sections() -> None:
    for number, record in enumerate(RECORDS, 1):
        text = record.read_text()
        assert record.name.startswith(f"{number:04}-") and text.startswith(f"# {number}. "), record.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS, record.name
        assert len(text.split()) <= MAX_WORDS, record.name


def test_the_index_has_the_title_of_each_record_in_order() -> None:
    titles = [record.read_text().partition("\n")[0].removeprefix("# ") for record in RECORDS]
    expected = [(title, f"decisions/{record.name}") for title, record in zip(titles, RECORDS, strict=True)]
    assert re.findall(r"^- \[(.+)\]\((.+)\)$", INDEX.read_text(), re.MULTILINE) == expected
