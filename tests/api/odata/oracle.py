"""The OASIS grammar as an oracle for the parser, evaluated by `abnf` of PyPI.

It decides whether decoded text is well-formed. The grammar is beside the repository, not in it. Tests that need it are
skipped without it. One rule is stricter, `keyPathLiteral`: it allowed any text after a slash, so that nothing after
`Products/` could be malformed. One mistake of the grammar is corrected.
"""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[3].parent / "shared" / "odata"
GRAMMAR = SHARED / "odata-abnf-construction-rules.txt"
CASES = SHARED / "oasis-cases.json"
# of the OASIS document on aggregation; tests that need it are skipped without it
AGGREGATION = SHARED / "odata-aggregation-abnf.txt"
HERE = GRAMMAR.exists() and CASES.exists()
WHY_NO_APPLY = "the OASIS grammar of $apply is not beside this repository"
WHY_SKIPPED = "the OASIS grammar and cases are not beside this repository"

RULES = {
    "expr": "commonExpr",
    "filter": "filter",
    "orderby": "orderby",
    "select": "select",
    "expand": "expand",
    "search": "search",
    "top": "top",
    "skip": "skip",
    "count": "inlinecount",
    "literal": "primitiveLiteral",
    "format": "format",
    "compute": "compute",
    "index": "index",
    "schemaversion": "schemaversion",
    "apply": "apply",
}
# Accepted beyond the grammar: date-times without an offset, as in `dateTime` of an event, and fractions of any length
WALL_CLOCK = re.compile(
    r"(-?\d{4,}-\d\d-\d\d[Tt]\d\d:\d\d(?>(?::\d\d(?:\.\d{1,12})?)?))(?>(?:(?<=\.\d{12})\d+)?)"
    r"((?>[Zz]|[-+]\d\d:\d\d)?)",
    re.ASCII,
)


def cases() -> list[dict[str, Any]]:
    return json.loads(CASES.read_text())


@cache
def rules() -> Any:
    from abnf import Rule

    class OData(Rule):
        pass

    text = GRAMMAR.read_text()
    # `abnf` has the rules of RFC 5234
    text = text[: text.index("; C. ABNF core definitions")] + '\nA-to-F = "A" / "B" / "C" / "D" / "E" / "F"\n'
    text = text.replace('keyPathSegments  = 1*( "/" keyPathLiteral )', 'keyPathSegments  = "/" %x00')
    # A mistake of the grammar: a string could not contain `{`, `|` and `}`, encoded or not
    text = text.replace(
        '"%" ( "0" / "1" /   "3" / "4" / "5" / "6" / "8"', '"%" ( "0" / "1" /   "3" / "4" / "5" / "6" / "7" / "8"'
    )
    OData.load_grammar(_lines(text))
    if AGGREGATION.exists():
        text = AGGREGATION.read_text()
        start = text.index("; 2. System Query Option $apply\n;--")
        OData.load_grammar(_lines(text[start:]))
        # Additions to other rules: `$these/` and `/aggregate(...)`
        added = [
            line for line in text[:start].splitlines() if line.startswith(("firstMemberExpr", "collectionPathExpr"))
        ]
        OData.load_grammar(_lines("\n".join(added)))
    return OData


def _lines(text: str) -> str:
    """Format the rules for `abnf`: each at the start of a line, with CRLF."""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith(";")]
    return "\r\n".join(line for line in lines if line) + "\r\n"


def encoded(option: str, text: str) -> str:
    """Percent-encode decoded `text` as the grammar requires, except blanks between words."""
    out: list[str] = []
    quoted = False
    for character in text:
        if character == "'":
            quoted = not quoted and option not in ("format", "search")
        plain = re.match(r"[A-Za-z0-9\-._~!$()*+,;=:@/?]", character) or character == "'"
        if (character in " \t" and not quoted and option != "format") or (
            plain and not (character in "/?" and quoted) and not (character == ";" and option == "search")
        ):
            out.append(character)
        else:
            out.append("".join(f"%{byte:02X}" for byte in character.encode()))
    return "".join(out)


# Also accepted beyond the grammar: blanks around a value, `,`, `;` and `=`, and inside and before parentheses, and no
# blank between a word and a parenthesis. `strict` rewrites them for the grammar
WORDS = "and|or|eq|ne|gt|ge|lt|le|in|has|add|sub|mul|divby|div|mod"
QUOTED = re.compile(r"('[^']*(?:''[^']*)*'|\"[^\"]*\")")
STRICT = (
    (re.compile(r"(?<![\w./@$#])(not)\(", re.IGNORECASE), r"\1 ("),
    (re.compile(rf"(?<=[\w)\]}}\ue000])(?<!\bnot)([ \t]+|(?<=\)))({WORDS})\(", re.IGNORECASE), r" \2 ("),
    (re.compile(r"\)(?=[A-Za-z])"), ") "),
    (re.compile(rf"(?<![\w.])(?!(?:not|{WORDS})[ \t])([^\W\d]\w*)[ \t]+(?=\()", re.IGNORECASE), r"\1"),
    (re.compile(r"[ \t]*([,;=])[ \t]*"), r"\1"),
    (re.compile(r"\([ \t]+"), "("),
    (re.compile(r"[ \t]+\)"), ")"),
)
WORD_RULES = 4  # the first rules of STRICT, which do not apply to words of a nested search
SEARCH_STRICT = (
    (re.compile(r"(?<![^ \t(])NOT\("), "NOT ("),
    (re.compile(r"(?<=[ \t)])(AND|OR)\("), r"\1 ("),
    (re.compile(r"\)(?=(?:AND|OR)[ \t(])"), ") "),
)


def strict(option: str, text: str) -> str:
    """Rewrite blanks as the grammar requires. The words of a search have other rules for blanks."""
    text = text.strip(" \t")
    if option in ("format", "skiptoken", "deltatoken"):
        return text
    rules = SEARCH_STRICT if option == "search" else STRICT[WORD_RULES:] if "search" in text.lower() else STRICT
    # A quoted value is replaced by one letter, which keeps its neighbours, while the rest changes
    quoted = iter(QUOTED.findall(text))
    text = QUOTED.sub("\ue000", text)
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return re.sub("\ue000", lambda _: next(quoted), text)


def well_formed(option: str, text: str) -> bool:
    return _well_formed(option, text.strip(" \t")) or _well_formed(option, strict(option, text))


def _well_formed(option: str, text: str) -> bool:
    from abnf import ParseError

    rule = rules()(RULES[option])
    if option != "search":  # `not()` is not a function of the service
        text = re.sub(r"(?<![\w./@$#'])(not)\(", r"\1 (", text, flags=re.IGNORECASE)
    text = WALL_CLOCK.sub(lambda found: found[1] + (found[2] or "Z"), text)
    source = encoded(option, text)
    if option not in ("expr", "literal"):
        source = f"${option}={source}"
    try:
        rule.parse_all(source)
    except ParseError:
        return False
    return True


SNIPPETS = [
    " ", "(", ")", ",", "'", "''", "/", "-", "+", ".", ":", ";", "=", "$", "@", "0", "1", "42", "4.2", "null", "true",
    " eq ", " and ", " or ", " in ", " add ", "not ", "a", "Name", "Price", "Items", "/any(", "x:", "()", "( ", " )",
    "contains(", "length(Name)", "2020-01-02", "2020-01-02T03:04:05Z", "'x'", "$it", "$count", "/$count", "\"", "*",
    " asc", " desc", "$select=", "$top=1", "E", "e", "_", "%", "[", "]", "{", "}",
]  # fmt: skip


def mutant(text: str, chance: random.Random) -> str:
    """Return `text` with one to three small changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 0, 1, 1, 1, 2, 4)))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:start] + chance.choice(SNIPPETS) + text[end:]
        elif kind == 2:
            text = text[:start] + chance.choice(SNIPPETS) + text[start:]
        else:
            pieces = re.findall(r"\w+|'[^']*'|\s+|.", text)
            if len(pieces) > 1:
                one, two = chance.randrange(len(pieces)), chance.randrange(len(pieces))
                pieces[one], pieces[two] = pieces[two], pieces[one]
                text = "".join(pieces)
    return text
