"""The parser: the OASIS cases, mutants of them against the grammar, and syntax trees."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from keyrack.api.odata import parse
from keyrack.api.odata.ast import (
    Arithmetic,
    AstComparison,
    AstJunction,
    AstMembership,
    AstNot,
    Literal,
    LiteralKind,
    Negation,
    Path,
)
from keyrack.core import errors
from tests.api.odata import oracle
from tests.api.odata.parse_cost import MOST, steps

LONG = bool(os.environ.get("KEYRACK_LONG"))
needs_oracle = pytest.mark.skipif(not oracle.HERE, reason=oracle.WHY_SKIPPED)

# The error of these two cases is elsewhere in the URL: an `$entity` without `$id`, and a text cut at its `&`
NOT_IN_THE_TEXT = {("format", "json", False), ("skiptoken", "Not", False)}


def accepts(option: str, text: str) -> bool:
    """Whether the text is well-formed. Unsupported text (501) is."""
    try:
        parse(option, text)
    except errors.NotImplemented:
        return True
    except errors.BadRequest:
        return False
    return True


@needs_oracle
def test_the_oasis_cases_in_scope_are_classified_correctly() -> None:
    wrong = [
        case["text"]
        for case in oracle.cases()
        if case["in_scope"]
        and (case["option"], case["text"], case["valid"]) not in NOT_IN_THE_TEXT
        and accepts(case["option"], case["text"]) != case["valid"]
    ]
    assert wrong == []


@needs_oracle
def test_most_oasis_cases_out_of_scope_are_classified_correctly() -> None:
    cases = [case for case in oracle.cases() if not case["in_scope"]]
    wrong = [case["text"] for case in cases if accepts(case["option"], case["text"]) != case["valid"]]
    assert len(wrong) <= 8, wrong


SEEDS = [
    ("filter", "name eq 'x' and not (id gt 5 or vin eq null)"),
    ("filter", "products/any(p:p/type eq 'a' and p/id in (1,2,null))"),
    ("filter", "substring(concat(a, 'b'),1,2) eq 'x' or -(id add 2) mul 3 le -4.5e1"),
    ("filter", "start ge 2020-01-02T03:04:05.678Z and date(end) lt 2020-01-02 and time(end) gt 03:04"),
    ("orderby", "tolower(name) desc,id asc,products/$count"),
    ("select", "id,userData/firstName,keyForm($select=imageUrl,name)"),
    ("expand", "products($select=id;$filter=id gt 5;$orderby=id desc;$top=2;$skip=1;$expand=service),groups"),
    ("expand", "products/$count($filter=id gt 5;$search=a b),groups($count=true;$top=2;$expand=cars/$count)"),
    ("filter", "any() or products/all(p:p/id gt 5) and all()"),
    ("search", '"red car" OR (blue AND NOT green) big'),
    ("count", "true"),
    ("skip", "12"),
    ("compute", "id mul 2 as double,concat(brand,'x') as z"),
]
APPLIED = [
    "filter(name eq 'x')/groupby((brand,model),aggregate($count as n,id with max as newest))/orderby(n desc)/top(5)",
    "compute(date(utcDateTime) as day,concat(a,'b') as z)/groupby((day,car/brand))/filter(n gt 1)/skip(2)",
    "aggregate(brand with countdistinct as brands,x mul 2 with average as m,products/$count as k)",
    "search(red OR blue)/identity/groupby((userData/lastName),aggregate(a with sum from b with max as c))",
]


def mutants(count: int, seed: int) -> Any:
    chance = random.Random(seed)
    seeds = SEEDS + [
        (case["option"], case["text"])
        for case in oracle.cases()
        if case["valid"]
        and case["in_scope"]
        and case["option"] in oracle.RULES
        and oracle.well_formed(case["option"], case["text"])
    ]
    for _ in range(count):
        option, text = chance.choice(seeds)
        yield option, oracle.mutant(text, chance)


@needs_oracle
def test_parser_and_grammar_agree_on_mutants() -> None:
    differing = [
        (option, text)
        for option, text in mutants(100_000 if LONG else 2_000, seed=4)
        if accepts(option, text) != oracle.well_formed(option, text)
    ]
    # The oracle lacks functions of the service that are called like operators, such as `in ()`
    assert len(differing) <= (30 if LONG else 0), differing


@pytest.mark.skipif(not (oracle.HERE and oracle.AGGREGATION.exists()), reason=oracle.WHY_NO_APPLY)
def test_parser_and_grammar_agree_on_mutants_of_apply() -> None:
    chance = random.Random(4)
    cases = [case["text"] for case in oracle.cases() if case["option"] == "apply" and case["valid"]]
    seeds = APPLIED + [text for text in cases if oracle.well_formed("apply", text)]
    texts = [oracle.mutant(chance.choice(seeds), chance) for _ in range(50_000 if LONG else 300)]
    differing = [text for text in texts if accepts("apply", text) != oracle.well_formed("apply", text)]
    assert len(differing) <= len(texts) // 500, differing  # unusual places of types, and `;` in a search


@pytest.mark.parametrize(
    ("option", "text", "position"),
    [
        ("filter", "name eq", 4),
        ("filter", "name eq 'a", 8),
        ("filter", "(name eq 'a'", 12),
        ("filter", "name eqq 'a'", 4),
        ("filter", "a in (b,c)", 7),
        ("orderby", "name ;id", 4),
        ("select", "id,,name", 3),
        ("expand", "products($select=id;bogus=1)", 20),
        ("expand", "products/$count($top=1)", 16),
        ("expand", "products/$count,,groups", 16),
        ("expand", "products($count=yes)", 16),
        ("top", "5x", 1),
        ("top", "-1", 0),
        ("search", 'a "b', 2),
        ("filter", "start gt 2020-01-01T00:00:0", 25),
        ("compute", "a add", 1),
        ("compute", "a add 1 as", 7),
        ("compute", "a as 1", 5),
        ("apply", "groupby((a)", 11),
        ("apply", "groupby(a)", 8),
        ("apply", "groupby((a),)", 12),
        ("apply", "groupby((a add 1))", 11),
        ("apply", "group((a))", 0),
        ("apply", "aggregate($count)", 16),
        ("apply", "aggregate(a with total as b)", 17),
        ("apply", "aggregate(a with sum)", 20),
        ("apply", "aggregate(a add 1 as b)", 17),
        ("apply", "aggregate(a With sum as b)", 12),
        ("apply", "filter(a eq )", 12),
        ("apply", "top(x)", 4),
        ("apply", "filter(true)/", 13),
        ("apply", "concat(top(1))", 13),
        ("index", "x", 0),
    ],
)
def test_errors_in_malformed_text_have_a_position(option: str, text: str, position: int) -> None:
    with pytest.raises(
        errors.BadRequest, match=f"^The query specified in the URI is not valid. .*position {position} of"
    ):
        parse(option, text)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("filter", "style has Sales.Pattern'Yellow'"),
        ("filter", "matchesPattern(name,'^A')"),
        ("filter", "cast(a,Edm.String) eq 'x'"),
        ("filter", "isof(Model.Car)"),
        ("filter", "case(a gt 0:1,true:2) eq 1"),
        ("filter", "geo.distance(a,b) lt 5"),
        ("filter", "hassubset(a,b)"),
        ("compute", "isof(Model.Car) as b"),
        ("apply", "concat(identity,top(1))"),
        ("apply", "topcount(2,a)/filter(a gt 1)"),
        ("apply", "groupby((rollup(a,b)))"),
        ("apply", "groupby((a),top(1))"),
        ("apply", "aggregate(a with Custom.concat as b)"),
        ("apply", "aggregate(a with sum from b with max as c)"),
        ("apply", "nest(identity as a)"),
        ("apply", "join(a as b)"),
        ("apply", "Model.Best(count=2)"),
        ("expand", "a($compute=b add 1 as c)"),
        ("expand", "a($apply=aggregate($count as n))"),
        ("filter", "isdefined(a)"),
        ("index", "-3"),
        ("skiptoken", "abc"),
        ("deltatoken", "abc"),
        ("schemaversion", "*"),
        ("expand", "*"),
        ("expand", "products($levels=2)"),
        ("expand", "products($count=true;$compute=id add 1 as next)"),
        ("expand", "products/$ref($count=true)"),
        ("filter", "any()/name eq 'a'"),
    ],
)
def test_unsupported_well_formed_text_gets_501(option: str, text: str) -> None:
    with pytest.raises(errors.NotImplemented, match="is not supported"):
        parse(option, text)
    if not option.endswith("token"):  # tokens may be any text
        with pytest.raises(errors.BadRequest):
            parse(option, text + " (")


def plain(tree: Any) -> Any:
    """The tree as nested tuples without positions."""
    match tree:
        case Literal(_, text, _):
            return text
        case Path(names, _):
            return "/".join(names)
        case AstNot(operand, _):
            return ("not", plain(operand))
        case Negation(operand, _):
            return ("-", plain(operand))
        case AstJunction(operator, operands, _):
            return (operator, *map(plain, operands))
        case AstComparison(operator, left, right, _) | Arithmetic(operator, left, right, _):
            return (operator, plain(left), plain(right))
        case AstMembership(left, items, _):
            return ("in", plain(left), *map(plain, items or ()))
    raise AssertionError(tree)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a or b and c", ("or", "a", ("and", "b", "c"))),
        ("a or b or c", ("or", "a", "b", "c")),
        ("a sub b sub c", ("sub", ("sub", "a", "b"), "c")),
        ("a add b mul c", ("add", "a", ("mul", "b", "c"))),
        ("a eq b gt c", ("eq", "a", ("gt", "b", "c"))),
        ("not a eq b", ("eq", ("not", "a"), "b")),
        ("not a in (1,2)", ("not", ("in", "a", "1", "2"))),
        ("-a mul b", ("mul", ("-", "a"), "b")),
        ("- 5", ("-", "5")),
        ("a sub -5", ("sub", "a", "-5")),
        ("A EQ NULL AND NOT b", ("and", ("eq", "A", "null"), ("not", "b"))),
        ("eq eq eq", ("eq", "eq", "eq")),
        ("a/b/c ne 'it''s'", ("ne", "a/b/c", "it's")),
    ],
)
def test_operators_have_the_precedence_of_the_specification(text: str, expected: Any) -> None:
    assert plain(parse("filter", text)) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("42", LiteralKind.INTEGER),
        ("4.2", LiteralKind.DECIMAL),
        ("1e3", LiteralKind.DOUBLE),
        ("'a'", LiteralKind.STRING),
        ("2020-01-02", LiteralKind.DATE),
        ("2020-01-02T03:04:05 01:00", LiteralKind.DATE_TIME),
        ("2020-01-02t03:04:05.1234567890123456", LiteralKind.WALL_CLOCK),
        ("03:04:05.6", LiteralKind.TIME),
        ("01234567-89ab-cdef-0123-456789abcdef", LiteralKind.GUID),
        ("Any.Prefix'Member'", LiteralKind.ENUM),
        ("TRUE", LiteralKind.BOOLEAN),
        ("Null", LiteralKind.NULL),
    ],
)
def test_literals(text: str, kind: LiteralKind) -> None:
    tree = parse("literal", text)
    assert isinstance(tree, Literal)
    assert tree.kind is kind


HOSTILE = [
    "(" * 200 + "true" + ")" * 200,
    "(" * 10_000,
    "not " * 2_000 + "true",
    "-" * 5_000 + "1",
    "tolower(" * 500 + "'a'" + ")" * 500,
    "p/any(x:" * 300 + "true" + ")" * 300,
    "1 add " * 2_000 + "1",
    "a eq " * 2_000 + "a",
    "[" * 3_000,
    '{"a":' * 3_000,
    "'" * 8_001,
    "a/" * 4_000,
    "case(" * 2_000,
]
HOSTILE_APPLIED = [
    "concat(" * 2_000,
    "concat(identity," * 60 + "identity" + ")" * 60,
    "groupby((a)," * 1_000,
    "filter(" + "(" * 5_000,
    "filter(" + "not " * 2_000 + "true)",
    "aggregate(" + ",".join(["a with sum as b"] * 500),
    "aggregate(" * 2_000,
    "compute(" + "a add " * 1_500 + "a as b)",
    "/" * 8_000,
    "identity/" * 900,
    "groupby((" + "a/" * 4_000,
    "a" * 8_000,
    "nest(" * 2_000,
    "aggregate(a from " + "b," * 3_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_hostile_filters_are_rejected_quickly(text: str) -> None:
    def refused() -> None:
        with pytest.raises(errors.Refusal):
            parse("filter", text)

    assert steps(refused) < MOST


@pytest.mark.parametrize("text", HOSTILE_APPLIED, ids=lambda text: text[:12])
def test_hostile_transformations_are_rejected_quickly(text: str) -> None:
    def refused() -> None:
        with pytest.raises(errors.Refusal):
            parse("apply", text)

    assert steps(refused) < MOST


def test_only_the_nesting_of_a_filter_is_limited() -> None:
    parse("filter", "(" * 50 + "true" + ")" * 50)
    with pytest.raises(errors.BadRequest, match="limit of 50 levels"):
        parse("filter", "(" * 51 + "true" + ")" * 51)
    parse("filter", " or ".join(["a eq 1"] * 500))


def test_trees_are_immutable() -> None:
    tree = parse("filter", "a eq 1")
    with pytest.raises(AttributeError):
        tree.operator = "ne"
