"""Random `$expand`s with counts, and the members that they add according to `evaluator`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.api.odata import evaluator as means
from tests.api.odata.random_filters import Piece, condition

Row = dict[str, Any]
SHOWN = {"parts": ("id", "i", "u"), "samples": ("id", "i", "n")}
TEXTS = {"parts": ("u",), "samples": ("s", "u")}


@dataclass(frozen=True)
class Expand:
    """An item of `$expand`: its text, and the members that it adds to a row."""

    text: str
    run: Callable[[Row], Row]


def begins_word(short: str, text: str) -> bool:
    """Whether a search for one letter matches a text. It must begin a word (docs/odata.md, "Search")."""
    return any(word.startswith(short.lower()) for word in re.split(r"[\W_]+", text.lower()))


@st.composite
def collection(draw: Any, name: str) -> Expand:
    """A to-many relation: its rows with or without a count, or the count alone."""
    alone = draw(st.integers(0, 3)) == 0
    options: list[str] = []
    found: Piece | None = draw(st.none() | condition(draw(st.integers(1, 2)), "$this"))
    if found is not None:
        options.append("$filter=" + (found.text if draw(st.booleans()) else found.text.replace("$this/", "")))
    word = draw(st.sampled_from([None, None, "a", "B"]))
    if word is not None:
        options.append(f"$search={word}")
    keys: list[tuple[str, bool]] = []
    top = skip = count = None
    if not alone:
        options.append("$select=" + ",".join(SHOWN[name]))
        keys = draw(st.lists(st.tuples(st.sampled_from(["i", "id"]), st.booleans()), max_size=2))
        top, skip = draw(st.none() | st.integers(0, 3)), draw(st.none() | st.integers(0, 2))
        count = draw(st.sampled_from([True, True, False, None]))
        said = (("top", top), ("skip", skip), ("count", None if count is None else str(count).lower()))
        options += [f"${option}={value}" for option, value in said if value is not None]
        if keys:
            options.append("$orderby=" + ",".join(key + " desc" * descending for key, descending in keys))

    def left(row: Row) -> list[Row]:
        rows = row[name]
        if found is not None:
            rows = [each for each in rows if found.run({"": each, "$this": each}) is True]
        if word is not None:
            rows = [each for each in rows if any(begins_word(word, each[text] or "") for text in TEXTS[name])]
        return rows

    def show(row: Row) -> Row:
        return {member: row[member] for member in SHOWN[name]}

    listed = "(" + ";".join(draw(st.permutations(options))) + ")" if options else ""
    return Expand(
        name + ("/$count" if alone else "") + listed,
        lambda row: means.expanded(
            name, left(row), keys, show, top=top, skip=skip, count=count, alone=alone
        ),
    )  # fmt: skip


@st.composite
def of_whole(draw: Any) -> Expand:
    """A to-one relation, with the rows that belong to its row."""
    inner: Expand = draw(collection("samples"))

    def run(row: Row) -> Row:
        whole = row["whole"]
        return {"whole": None if whole is None else {"id": whole["id"], **inner.run(whole)}}

    return Expand(f"whole($select=id;$expand={inner.text})", run)


@st.composite
def expands(draw: Any) -> Expand:
    items = draw(st.sampled_from([(collection("parts"),), (of_whole(),), (collection("parts"), of_whole())]))
    drawn: list[Expand] = [draw(item) for item in items]

    def run(row: Row) -> Row:
        members: Row = {}
        for item in drawn:
            members |= item.run(row)
        return members

    return Expand(",".join(item.text for item in draw(st.permutations(drawn))), run)
