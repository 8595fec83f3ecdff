"""The filter cache: a filter from a cached shape equals the filter from a fresh parse."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.api.odata import Limits, Query, Shape, query_string
from keyrack.api.odata.filter_cache import MADE, Shapes
from keyrack.api.schema.fields import RESOURCES, Resource
from keyrack.core.errors import Refusal
from keyrack.fleet.schema import CAR, EVENT, PRODUCT
from tests.api.odata.random_filters import PART, SAMPLE, TEXTS, WHOLE, Piece, filters, quoted

LONG = bool(os.environ.get("KEYRACK_LONG"))
LIMITS = Limits(nodes=5_000, nesting=100)
# A rough pattern: any replacement must give the same result with and without the cache
LITERAL = re.compile(r"'(?:[^']|'')*'|[0-9][-0-9:.TZeE]*[0-9Z]|[0-9]")
ANY = [
    *[quoted(text) for text in TEXTS], "''", "'CarOpened'", "'2021-01-01T00:00:00Z'", "'2021-01-01'", "'x''y'",
    "'7f3c1a52-6c6b-4a55-9d5c-0d6f6f0b1c2d'", "0", "1", "7", "007", "2147483647", "2147483648", "999999999999999999",
    "9223372036854775808", "1" * 41, "1.5", "1e3", "-1", "2021-01-01T00:00:00Z", "2021-02-30T00:00:00Z",
    "2021-01-01T23:59:60.5z", "2021-01-01T00:00:00+01:00", "2021-01-01T00:00:00", "2021-01-01", "12021-01-01T00:00:00Z",
    "12:30", "7f3c1a52-6c6b-4a55-9d5c-0d6f6f0b1c2d", "12345678-1234-1234-1234-123456789012", "null", "true", "NaN",
]  # fmt: skip


class Counted(Shapes):
    """A cache that counts its hits."""

    known = 0

    def find(self, *asked: object) -> Query | None:
        found = super().find(*asked)
        self.known += found is not None
        return found


@contextmanager
def remembering(shapes: Shapes) -> Iterator[Shapes]:
    before, query_string._shapes = query_string._shapes, shapes
    try:
        yield shapes
    finally:
        query_string._shapes = before


def made(resource: Resource, filter: str, others: str = "") -> object:
    """The compiled query of a filter, or its error."""
    text = f"$filter={quote(filter, safe='')}{others}".encode()
    try:
        return query_string._query.__wrapped__(resource, text, Shape.COLLECTION, "t", LIMITS, None, False)
    except Refusal as refusal:
        return type(refusal), refusal.text, refusal.errors


def made_anew(resource: Resource, filter: str, others: str = "") -> object:
    with remembering(Shapes()):
        return made(resource, filter, others)


def check(resource: Resource, *filters: str, others: str = "") -> int:
    """Compare each filter with and without the cache. Returns the hits."""
    with remembering(Counted()) as shapes:
        for filter in filters:
            # repr, because of NaN and 1.0
            assert repr(made(resource, filter, others)) == repr(made_anew(resource, filter, others)), filter
        assert isinstance(shapes, Counted)
        return shapes.known


@settings(max_examples=5_000 if LONG else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(piece=filters, data=st.data())
def test_a_cached_shape_gives_the_same_query_as_a_fresh_parse(piece: Piece, data: st.DataObject) -> None:
    """Other literals of any kind, also invalid ones, replace literals in any place."""
    RESOURCES.update(Part=PART, Whole=WHOLE, Sample=SAMPLE)
    texts = [piece.text]
    for _ in range(3):
        texts.append(
            LITERAL.sub(lambda found: data.draw(st.sampled_from([found[0], *ANY])), data.draw(st.sampled_from(texts)))
        )
    check(SAMPLE, *texts, piece.text, others=data.draw(st.sampled_from(["", "&$orderby=s eq 'a',id&$top=3&$skip=1"])))


@pytest.mark.parametrize(
    "filters",
    [
        ("id eq 1", "id eq 2", "id eq 0"),
        ("name eq 'a'", "name eq 'it''s'", "name eq ''"),
        (
            "brand eq 'VW' and not contains(model,'Golf') and id gt 5",
            "brand eq 'A' and not contains(model,'') and id gt 9",
        ),
        ("id in (1, 2) and id lt 5", "id in (1, 2) and id lt 7"),
        ("products/any(p:p/serialNumber eq 'S1')", "products/any(p:p/serialNumber eq 'S2')"),
        ("assignments/any(a:a/end gt 2026-01-01T00:00:00Z)", "assignments/any(a:a/end gt 2027-12-31T23:59:59.5Z)"),
        ("assignments/any(a:a/end gt '2026-01-01T00:00:00Z')", "assignments/any(a:a/end gt '2027-01-01')"),
    ],
)
def test_other_values_hit_the_cache(filters: tuple[str, ...]) -> None:
    assert check(CAR, *filters) == len(filters) - 1


@pytest.mark.parametrize(
    ("resource", "filters"),
    [
        (EVENT, ("type eq 'CarOpened'", "type eq 'CarClosed'", "type eq 'Nobody'")),
        (CAR, ("id mod 2 eq 1", "id mod 0 eq 1", "id div 3 eq 1")),
        (CAR, ("substring(name,1) eq 'a'", "substring(name,2) eq 'a'", "substring(name,-2) eq 'a'")),
        (CAR, ("id in (1,2)", "id in (1,3)", "id in ('a')")),
        (
            CAR,
            ("id eq 1", "id eq 2147483648", "id eq 9223372036854775808", "id eq 0000000000000000001"),
        ),
        (CAR, ("assignments/any(a:a/end gt '2026-01-01')", "assignments/any(a:a/end gt 'tomorrow')")),
    ],
)
def test_a_value_that_changes_the_result_is_part_of_the_shape(resource: Resource, filters: tuple[str, ...]) -> None:
    """The value decides between an error, another statement or another type."""
    assert check(resource, *filters) == 0
    assert (
        check(resource, *filters, *filters) >= sum(isinstance(made_anew(resource, text), Query) for text in filters) - 1
    )


def test_a_literal_that_was_decisive_once_stays_part_of_the_shape() -> None:
    """`round` of an integer is that integer. A later text can invalidate an earlier conclusion."""
    texts = ["1 add id eq 5", "id eq 1 or 1 eq 1", "substring(name,id) eq 'b'", "substring(name,7) eq 'b'"]
    assert check(CAR, *texts, *texts) >= len(texts)


def test_resources_and_options_do_not_share_cached_shapes() -> None:
    with remembering(Counted()) as shapes:
        for resource in (CAR, PRODUCT, CAR):
            for others in ("", "&$top=5", "&$orderby=id desc"):
                assert made(resource, "id eq 3", others) == made_anew(resource, "id eq 3", others)
        assert isinstance(shapes, Counted) and shapes.known == 3


def test_the_cache_has_a_maximum_size() -> None:
    with remembering(Shapes()) as shapes:
        for number in range(MADE + 10):
            made(CAR, f"id mod {number + 1} eq 1")
        kept = sum(len(shape.queries) for shape in shapes._shapes.values())
        assert 0 < kept <= MADE
        assert made(CAR, "id mod 7 eq 1") == made_anew(CAR, "id mod 7 eq 1")
