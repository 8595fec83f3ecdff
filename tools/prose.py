"""Checks that documents, docstrings, comments and messages are plain technical English.

    python tools/prose.py [PATH ...]   findings, one per line
    python tools/prose.py --limits     compare the number of findings with tools/prose-limits.json
    python tools/prose.py --lower      write today's numbers into that file, if they are lower

The rules are those of CONTRIBUTING.md, "Language". A finding is a place to read again, and a few are correct English.
So each directory has a limit, which only goes down. tests/docs/test_page_rules.py checks the lengths of pages.

Linters for prose read files or comments. They find neither a message in an expression nor the first sentence of a
docstring, and the packages of Vale download its program.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_name("prose-limits.json")
MAX_SENTENCE = 30  # words
MAX_FIRST_LINE = 12  # words of the first sentence of a docstring
OF_PAGES = ("paragraph", "cell")  # passages whose lengths tests/docs/test_page_rules.py checks
FROZEN = ("src/keyrack/db/migrations/versions/", "src/keyrack/db/migrations/frozen/", "CHANGELOG.md")

# A relative clause as a subject hides the actor: "Who asks at once is rejected"
OPENING = re.compile(r"(?:Who|Whoever|Whom|What|Whatever|Whence|Such|That which|Of(?! course))\b(?![^?]*\?$)")
PHRASES = re.compile(
    r"\b(?:(?:tells?|told)(?! (?:\w+ )?apart)|stands (?:in|at|there|beside)|go(?:es)? on|anew|all the same|as it is"
    r"|comes? of|of ours|somebody|anybody|whoever|whence|in charge of|under way|shown to be|has shown|looked at"
    r"|dealt)\b",
    re.IGNORECASE,
)
SQL = re.compile(r"\b(?:select|insert|update|delete|create|alter|drop|from|where)\b")
COMMENT = re.compile(r"^ *<!--.*?-->", re.DOTALL | re.MULTILINE)  # of a page; text may quote `<!--`
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
# A full stop, perhaps before a quote, a bracket or an asterisk, and the start of the next sentence
END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')*])|(?<=[.!?][\"')*]{2}))\s+(?=[\"'(*\[]*[A-Z0-9`])")
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s")


@dataclass(frozen=True)
class Passage:
    """A text of one kind, with the line where it starts."""

    line: int
    text: str
    kind: str  # "docstring", "comment", "message", "paragraph" or "cell"


@dataclass(frozen=True)
class Finding:
    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text[:160]}"


def passages(path: Path) -> Iterator[Passage]:
    """The passages of a Python file or a page."""
    text = (ROOT / path).read_text()
    yield from python_passages(text) if path.suffix == ".py" else page_passages(text)


def python_passages(source: str) -> Iterator[Passage]:
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value): ast.get_docstring(node) or ""  # pyright: ignore[reportAttributeAccessIssue]
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        if id(node) in docstrings:
            yield Passage(node.lineno, docstrings[id(node)], "docstring")
        elif node.value[:1].isupper() and node.value.count(" ") > 2 and not SQL.search(node.value):
            yield Passage(node.lineno, node.value, "message")
    yield from _comments(source)


def _comments(source: str) -> Iterator[Passage]:
    """Comments, those of neighbouring lines as one passage."""
    first, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            first = first if lines else token.start[0]
            lines.append(token.string.lstrip("#: "))
        elif token.type not in (tokenize.NL, tokenize.NEWLINE) and lines:
            yield Passage(first, " ".join(lines), "comment")
            lines = []


def page_passages(text: str) -> Iterator[Passage]:
    """Paragraphs, list items and table cells of a page, without headings and code."""
    first, lines, fenced = 0, list[str](), False
    text = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for number, line in enumerate([*text.splitlines(), ""], 1):
        ends = (
            not line.strip()
            or line.startswith(("#", "|", "<"))
            or LIST_ITEM.match(line)
            or line.lstrip().startswith("```")
        )
        if lines and ends:
            yield Passage(first, LIST_ITEM.sub("", " ".join(lines), count=1), "paragraph")
            lines = []
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith(("#", "<")) or not line.strip():
            continue
        elif line.startswith("|"):
            if not set(line) <= set("|-: "):
                yield from (Passage(number, cell.strip(), "cell") for cell in line.strip("|").split("|"))
        else:
            first = first if lines else number
            lines.append(line)


def plain(text: str) -> str:
    """The text as a reader counts its words.

    A link is its text, and a name in backticks is one word.
    """
    return LINK.sub(r"\1", CODE.sub("`name`", text))


def sentences(text: str) -> list[str]:
    """The sentences of a passage, as `plain` text."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return [sentence for paragraph in paragraphs if paragraph for sentence in END.split(plain(paragraph))]


def faults(passage: Passage) -> Iterator[tuple[str, str]]:
    """The broken rules of a passage, each with its sentence."""
    found = sentences(passage.text)
    if passage.kind == "docstring" and found and len(found[0].split()) > MAX_FIRST_LINE:
        yield f"first sentence above {MAX_FIRST_LINE} words", found[0]
    for sentence in found:
        if OPENING.match(sentence) and sentence.count(" ") > 2:
            yield "opens with a relative clause", sentence
        if phrase := PHRASES.search(sentence):
            yield f"phrase '{phrase.group().lower()}'", sentence
        if passage.kind not in OF_PAGES and len(sentence.split()) > MAX_SENTENCE:
            yield f"sentence above {MAX_SENTENCE} words", sentence


def findings(path: Path) -> Iterator[Finding]:
    for passage in passages(path):
        for rule, sentence in faults(passage):
            yield Finding(path, passage.line, rule, sentence)


def files(paths: list[str]) -> list[Path]:
    """The tracked Python files and pages below the paths, without frozen ones."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *(paths or ["src", "docs", "tests", "tools", "*.md"])],  # noqa: S607 - git of the developer's PATH
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [Path(name) for name in listed if name.endswith((".py", ".md")) and not name.startswith(FROZEN)]


def group(path: Path) -> str:
    """The directory whose limit holds for a file: a package, or a directory of the root."""
    parts = path.parts[:-1]
    return "/".join(parts[: 3 if parts[:1] == ("src",) else 1]) or path.name


def main(arguments: list[str]) -> int:
    options = {argument for argument in arguments if argument.startswith("--")}
    found = [finding for path in files([a for a in arguments if a not in options]) for finding in findings(path)]
    numbers = Counter(group(finding.path) for finding in found)
    if "--lower" in options:
        old = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
        lowered = {name: min(number, old.get(name, number)) for name, number in sorted(numbers.items())}
        LIMITS.write_text(json.dumps(lowered, indent=2) + "\n")
        return 0
    if "--limits" not in options:
        print(*found, sep="\n")
        return 0
    limits: dict[str, int] = json.loads(LIMITS.read_text())
    above = {name for name, number in numbers.items() if number > limits.get(name, 0)}
    for finding in found:
        if group(finding.path) in above:
            print(finding)
    for name in sorted(above):
        print(f"{name}: {numbers[name]} findings, and its limit is {limits.get(name, 0)}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
