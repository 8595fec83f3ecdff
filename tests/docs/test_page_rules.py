"""Pages are short enough to read: words per page, per table cell and per sentence."""

from __future__ import annotations

from pathlib import Path

from tools.prose import COMMENT, page_passages, plain, sentences

from tests.docs.code_blocks import BLOCK, ROOT

DOCS = ROOT / "docs"
PAGE_WORDS, CELL_WORDS, SENTENCE_WORDS = 2_500, 40, 30

# Reference pages, which are read row by row. All but the command line are generated
REFERENCE = {"command-line.md", "endpoints.md", "errors.md", "metrics.md", "settings.md"}


def count(text: str) -> int:
    return len(plain(text).split())


def violations(path: Path) -> list[str]:
    """Each rule that the page breaks, with the text."""
    text, name = path.read_text(), path.name
    passages = list(page_passages(text))
    cells = [passage.text for passage in passages if passage.kind == "cell"]
    found = [f"{name}: cell of {n} words: {plain(cell)[:80]}" for cell in cells if (n := count(cell)) > CELL_WORDS]
    found += [
        f"{name}: sentence of {n} words: {sentence[:80]}"
        for passage in passages
        for sentence in sentences(passage.text)
        if (n := len(sentence.split())) > SENTENCE_WORDS
    ]
    words = count(COMMENT.sub("", BLOCK.sub("", text)).replace("|", " "))
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
