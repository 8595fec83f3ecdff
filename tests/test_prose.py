"""The check of prose: each rule finds its fault, and plain text has none."""

from __future__ import annotations

import json

import pytest
from tools.prose import LIMITS, Passage, faults, files, group, page_passages, python_passages, sentences

LONG = "The word " + "again " * 30 + "ends."


def rules(text: str, kind: str = "comment") -> list[str]:
    return [rule for rule, _ in faults(Passage(1, text, kind))]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Who asks at once is rejected.", "opens with a relative clause"),
        ("What has no limit has no form.", "opens with a relative clause"),
        ("The caller is told nothing.", "phrase 'told'"),
        ("In charge of the queue.", "phrase 'in charge of'"),
        (LONG, "sentence above 30 words"),
    ],
)
def test_each_rule_finds_its_fault(text: str, rule: str) -> None:
    assert rules(text) == [rule]


@pytest.mark.parametrize(
    "text",
    ["What is a scope?", "Of course it expires.", "A name tells them apart, as in `who is told`.", "What"],
)
def test_correct_english_is_no_fault(text: str) -> None:
    assert rules(text) == []


def test_a_docstring_begins_with_a_short_sentence() -> None:
    assert rules("It counts " + "one " * 12 + "day.", "docstring") == ["first sentence above 12 words"]
    assert rules("It counts days. " + "It " + "again " * 14 + "ends.", "docstring") == []


def test_a_page_may_have_long_sentences_because_its_own_test_counts_them() -> None:
    assert rules(LONG, "paragraph") == []


def test_docstrings_comments_and_messages_of_a_module_are_read() -> None:
    source = '''"""The module."""
# A reason
# on two lines
SQL = "Select it from where it is"
raise ValueError("The value must be a number.")
'''
    assert [(p.line, p.kind, p.text) for p in python_passages(source)] == [
        (1, "docstring", "The module."),
        (5, "message", "The value must be a number."),
        (2, "comment", "A reason on two lines"),
    ]


def test_paragraphs_items_and_cells_of_a_page_are_read() -> None:
    page = (
        "# Heading\n\nOne in UTF-8.\nparagraph.\n- An item.\n\n<!-- A\ncomment -->\n| A | B |\n|---|---|\n\n"
        "```sh\nnot read\n```\n"
    )
    assert [(p.line, p.kind, p.text) for p in page_passages(page)] == [
        (3, "paragraph", "One in UTF-8. paragraph."), (5, "paragraph", "An item."), (9, "cell", "A"), (9, "cell", "B"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [two words](a.md#b) and `a b. C`.", ["See two words and `name`."]),
        ("Next item. 3 more words.", ["Next item.", "3 more words."]),
        ('It says "no." (It may.) **It *must*.** `x` ends.',
         ['It says "no."', "(It may.)", "**It *must*.**", "`name` ends."]),
        ("Use 1.5 s, e.g. of RFC 3339.", ["Use 1.5 s, e.g. of RFC 3339."]),
        ("One\nline.\n\nanother", ["One line.", "another"]),
    ],
)  # fmt: skip
def test_a_passage_is_split_into_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_every_limit_is_of_a_directory_that_exists() -> None:
    groups = {group(path) for path in files([])}
    assert json.loads(LIMITS.read_text()).keys() <= groups
