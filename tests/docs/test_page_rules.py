"""Pages are short enough to read: words per page, per table cell and per sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.code_blocks import BLOCK, ROOT

DOCS = ROOT / "docs"
PAGE_WORDS, CELL_WORDS, SENTENCE_WORDS = 2_500, 40, 30

# Reference pages, which are read row by row. All but the command line are generated
REFERENCE = {"command-line.md", "endpoints.md", "errors.md", "metrics.md", "settings.md"}

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z0-9`§])")


def plain(text: str) -> str:
    """The text as a reader counts it: a link is its text, and a literal is one word."""
    return COMMENT.sub("", LINK.sub(lambda link: link[1], CODE.sub("§", BLOCK.sub("", text))))


def cells(text: str) -> Iterator[str]:
    """The cells of the tables of a plain text."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield from (cell.strip() for cell in line.strip("|").split("|"))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and list items of a plain text, each on one line."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_text = bool(line.strip()) and not line.startswith(("|", "#"))
        if lines and (not is_text or ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if is_text:
            lines.append(ITEM.sub("", line).strip())


def sentences(text: str) -> Iterator[str]:
    """The sentences of paragraphs, list items and cells."""
    for part in [*paragraphs(text), *cells(text)]:
        yield from SENTENCE_END.split(part)


def violations(path: Path) -> list[str]:
    """Each rule that the page breaks, with the text."""
    text = plain(path.read_text())
    name = path.name
    found = [f"{name}: cell of {n} words: {cell[:80]}" for cell in cells(text) if (n := len(cell.split())) > CELL_WORDS]
    found += [
        f"{name}: sentence of {n} words: {sentence[:80]}"
        for sentence in sentences(text)
        if (n := len(sentence.split())) > SENTENCE_WORDS
    ]
    words = sum(len(line.replace("|", " ").split()) for line in text.splitlines())
    if words > PAGE_WORDS:
        found.append(f"{name}: {words} words")
    return found


PAGES = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
PAGES |= {name: ROOT / name for name in ("CONTRIBUTING.md", "README.md", "SECURITY.md")}


def test_pages_are_short_enough_to_read() -> None:
    assert [rule for name in sorted(PAGES.keys() - REFERENCE) for rule in violations(PAGES[name])] == []


def test_the_reference_pages_exist() -> None:
    assert not REFERENCE - PAGES.keys()


def test_long_pages_cells_and_sentences_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# P\n\nA {'long ' * 30}one. A short one.\n\n| {'Cell. ' * 41}| b |\n\n{'Word. ' * 2_500}\n")
    assert [text.partition(": ")[2].partition(":")[0] for text in violations(page)] == [
        "cell of 41 words", "sentence of 32 words", "2579 words",
    ]  # fmt: skip


def test_links_literals_and_blocks_count_as_a_reader_sees_them() -> None:
    text = "- See [two words](a.md#b) and `a b c`.\n- Next item. 3 more words.\n\n```sh\nnot counted\n```\n"
    assert list(sentences(plain(text))) == ["See two words and §.", "Next item.", "3 more words."]
