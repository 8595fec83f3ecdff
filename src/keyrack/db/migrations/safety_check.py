"""Judges from its SQL how a migration affects a release that runs meanwhile.

A statement breaks the release if it removes or changes what the release uses. It blocks the release if it locks a table
while it reads or writes all rows, although a form with a short lock exists. A statement that cannot be judged counts as
breaking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NAME = r'(?:if (?:not )?exists )?(?:only )?"?([a-z_0-9.]+)"?'
# Functions with one value per statement: a column with such a default is added without a rewrite of the table
STABLE = ("now", "current_timestamp", "statement_timestamp", "transaction_timestamp", "make_interval")

# Patterns of whole statements -> the reason
BREAKING = {
    r"drop (?!index)": "removes an object that a running release may use",
    r"drop index": "removes an index that a running release may need, also for `on conflict`",
    r"truncate": "removes rows",
    r"alter (type|domain|view|sequence|function|procedure|index|schema|policy)": "changes what a running release uses",
}
HOLDING = {
    r"(update|delete|merge)": "locks every row until its end; fill in batches, outside of the migration",
    r"lock": "locks a table",
    r"(vacuum|cluster|refresh)": "locks a table while it is rewritten",
    r"reindex(?! .*concurrently)": "locks a table; reindex concurrently",
}
HARMLESS = (
    r"create (or replace )?(unlogged )?(table|function|procedure|view|sequence|type|domain|statistics|schema) ",
    r"create (or replace )?(constraint )?trigger ",
    r"(create extension|comment|grant|analyze|insert|select|set|reset) ",
)

CONSTRAINT = "(?:constraint|check|foreign|unique|primary|exclude|not null) "

# Patterns of `alter table` actions on an existing table -> the reason
ALTER_BREAKING = {
    r"drop(?! not null)": "removes an object that a running release may use",
    r"rename": "a running release uses the old name",
    r"alter (column )?\w+ (set data )?type": "rewrites the table, and a running release expects the old type",
    r"alter (column )?\w+ drop (default|identity|expression)": "a running release inserts no value for it",
    r"(set schema|owner|inherit|no inherit|of|not of|detach)": "changes the table that a running release uses",
    r"(enable|force|disable|no force) ": "changes which rows a running release sees, or which triggers run",
}
ALTER_HOLDING = {
    r"set (tablespace|logged|unlogged|access method)": "rewrites the table",
    r"attach partition": "reads the partition; attach only one that the same revision creates",
    r"add (constraint \w+ )?(check|foreign|unique|primary|exclude|not null)(?!.*(not valid|using index))":
        "reads the table; add it `not valid`, and validate it in a later revision; make keys `using index`",
}  # fmt: skip
COLUMN_HOLDING = {
    r".* (primary key|unique|references|check)\b": "may read the table; add a separate constraint that is `not valid`",
    r".* generated ": "rewrites the table",
    r"\w+ (small|big)?serial": "rewrites the table",
}
ALTER_HARMLESS = (
    r"alter (column )?\w+ (set default|drop not null|set statistics|set storage|set compression|set \(|reset \()",
    rf"add {CONSTRAINT}",
    r"(set|reset) \(",
    r"replica identity",
)


@dataclass(frozen=True, slots=True)
class StatementEffect:
    """The effect of a statement on a running release: it breaks it, or else blocks it."""

    breaks: bool
    statement: str
    reason: str


@dataclass
class SafetyChecker:
    """Judges revisions in their order, because earlier ones decide what a later one may do."""

    not_null: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])  # constraint -> column
    proven: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])  # columns without null

    def effects(self, script: Sequence[str]) -> list[StatementEffect]:
        """The effects of the statements of one revision."""
        plain = [_plain(statement) for statement in script]
        made = {
            result[1]
            for plain_statement in plain
            if (result := re.match(rf"create (?:\w+ )?table {NAME}", plain_statement))
        }
        added: set[str] = set()
        result = [
            StatementEffect(breaks, short(statement), reason)
            for statement, plain_statement in zip(script, plain, strict=True)
            for breaks, reason in self._statement(plain_statement, made, added)
        ]
        validated = re.findall(r"validate constraint (\w+)", "; ".join(plain))
        self.proven |= {self.not_null[name] for name in validated if name in self.not_null}
        return result

    def _statement(self, statement: str, made: set[str], added: set[str]) -> Iterator[tuple[bool, str]]:
        if table := re.match(rf"alter table {NAME} (.*)", statement):
            if table[1] not in made:
                for action in _parts(table[2]):
                    yield from self._action(table[1], action, added)
        elif index := re.match(r"create (?:unique )?index (concurrently )?.*?\bon (?:only )?([a-z_0-9.]+)", statement):
            if not index[1] and index[2] not in made:
                yield False, "blocks writes while the index is built; use `concurrent_index.index`"
        elif changed := re.match(rf"(?:update|delete from) {NAME}", statement):
            if changed[1] not in made:
                yield False, _reasons(HOLDING, statement)[0]
        else:
            yield from _check_text(statement, BREAKING, HOLDING, HARMLESS)

    def _action(self, table: str, action: str, added: set[str]) -> Iterator[tuple[bool, str]]:
        if constraint := re.match(r"add constraint (\w+) (.*)", action):
            added.add(constraint[1])
            if column := re.match(r"check \(+(\w+) is not null\)+ not valid", constraint[2]):
                self.not_null[constraint[1]] = (table, column[1])
        if column := re.match(rf"add (?:column )?(?!{CONSTRAINT}){NAME} (.*)", action):
            yield from _column(column[2])
        elif column := re.match(r"alter (?:column )?(\w+) set not null", action):
            if (table, column[1]) not in self.proven:
                yield True, "reads the table, and a running release may write null; validate a check first"
        elif validated := re.match(r"validate constraint (\w+)", action):
            if validated[1] in added:
                yield False, "reads the table under the lock that added it; validate in a separate revision"
        else:
            yield from _check_text(action, ALTER_BREAKING, ALTER_HOLDING, ALTER_HARMLESS)


def short(statement: str) -> str:
    """A statement in one line of at most 100 characters."""
    line = " ".join(statement.split())
    return line if len(line) <= 100 else f"{line[:99]}…"


def _column(definition: str) -> Iterator[tuple[bool, str]]:
    for reason in _reasons(COLUMN_HOLDING, f"x {definition}"):
        yield False, reason
    default = re.search(r" default (.*)", definition)
    if " not null" in definition and not default:
        yield True, "a running release inserts no value for it; it needs a default"
    if default and set(re.findall(r"(\w+) ?\(", default[1])) - set(STABLE):
        yield False, "rewrites the table, because the default has another value in each row"


def _check_text(
    text: str, breaking: Mapping[str, str], holding: Mapping[str, str], harmless: Iterable[str]
) -> Iterator[tuple[bool, str]]:
    judgements = [(True, reason) for reason in _reasons(breaking, text)] or [
        (False, reason) for reason in _reasons(holding, text)
    ]
    if not judgements and not any(re.match(pattern, text) for pattern in harmless):
        yield True, "cannot be judged"
    yield from judgements


def _reasons(rules: Mapping[str, str], text: str) -> list[str]:
    return [reason for pattern, reason in rules.items() if re.match(pattern, text)]


def _plain(statement: str) -> str:
    """The statement in one lower-case line, without comments and quoted text."""
    without = re.sub(r"--[^\n]*", "", statement)
    without = re.sub(r"\$(\w*)\$.*?\$\1\$", "''", without, flags=re.DOTALL)
    without = re.sub(r"'(?:[^']|'')*'", "''", without)
    return " ".join(without.lower().split()).rstrip(";")


def _parts(actions: str) -> list[str]:
    """The actions of an `alter table`, split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in actions:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
