"""Code compares addresses only by their normal form: `src` never folds the case of an address."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.test_addresses import folded_characters
from tests.support.servers import Sql

SOURCE = Path(__file__).parent.parent / "src" / "keyrack"
FROZEN = {f"{number:04}" for number in range(1, 39)}  # revisions before the normal form
FOLDING = {"lower", "upper", "casefold", "title", "swapcase", "capitalize"}
ADDRESS = re.compile(r"e_?mail|address|user_?name|mailbox|domain|login|recipient", re.IGNORECASE)
SQL_FOLDING = re.compile(r"\b(?:to)?(?:lower|upper)\s*\(|\bilike\b|~\*|citext|casefold|nondeterministic", re.IGNORECASE)
MAYBE_FOLDING = re.compile(rf"\b(?:{'|'.join(FOLDING)})\b|{SQL_FOLDING.pattern}", re.IGNORECASE)
INSERT = re.compile(r"insert into (?:manager|person|invitation) ?\(([^)]*)\)")
# Modules whose SQL or OData folds case, with the folded text
MAY_FOLD = {
    "api/odata/functions.py": "what a client's filter asks for",
    "cli/commands/brand.py": "names of brands",
    "cli/commands/import_catalog.py": "names of brands",
    "cli/name_lookup.py": "names of rows; of managers the normal form",
    "console/lists/query.py": "a part of a text that is typed",
    "console/pages/installations.py": "numbers of products",
    "console/pages/key_forms.py": "names of brands",
    "db/migrations/versions/0055_search.py": "the folding of searches",
    "db/address_forms.py": "A to Z alone, of rows that have no normal form yet",
    "fleet/endpoints/brands.py": "names of brands",
}


def modules(pattern: re.Pattern[str]) -> Iterator[tuple[str, ast.Module]]:
    """The modules whose text matches. To parse all of them takes two seconds."""
    for path in sorted(SOURCE.rglob("*.py")):
        if (path.parent.name != "versions" or path.name[:4] not in FROZEN) and pattern.search(text := path.read_text()):
            yield str(path.relative_to(SOURCE)), ast.parse(text)


def docstrings(tree: ast.Module) -> set[int]:
    """The nodes that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


def offences(tree: ast.Module, *, may_fold: bool) -> list[str]:
    """Yield folded addresses in Python, and SQL or OData that folds case."""
    prose = docstrings(tree)
    problems: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FOLDING:
            if ADDRESS.search(ast.unparse(node.func.value)):
                problems.append(ast.unparse(node))
        elif isinstance(node, ast.Attribute) and node.attr in FOLDING and ast.unparse(node.value) == "str":
            problems.append(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            folds = SQL_FOLDING.search(node.value)
            if folds and not may_fold:
                problems.append(node.value[max(0, folds.start() - 20) : folds.end() + 30])
    return problems


def test_no_code_folds_the_case_of_an_address() -> None:
    trees = modules(MAYBE_FOLDING)
    problems = {name: wrong for name, tree in trees if (wrong := offences(tree, may_fold=name in MAY_FOLD))}
    assert problems == {}, "compare by keyrack.core.addresses.address_form and the column address_form"


def test_each_exception_is_needed() -> None:
    trees = {name: ast.parse((SOURCE / name).read_text()) for name in MAY_FOLD}
    assert [name for name, tree in trees.items() if not offences(tree, may_fold=False)] == []


@pytest.mark.parametrize(
    "code",
    [
        "SQL = 'select from manager where lower(username) = lower($1)'",
        "SQL = 'select from person where ' + 'email_address ilike $1'",
        "def f(row): return row['address'].lower()",
        "def f(email): return email.strip().casefold()",
        "def f(names): return map(str.lower, names)",
        "query = {'$filter': f\"tolower(emailAddress) eq '{text}'\"}",
    ],
)
def test_folded_addresses_are_detected(code: str) -> None:
    assert offences(ast.parse(code), may_fold=False)


def test_only_indexes_of_the_previous_release_fold_case(sql: Sql) -> None:
    rows = sql.rows("select indexname from pg_indexes where schemaname = 'public' and indexdef ~ 'lower|upper'")
    assert {row[0] for row in rows} == {
        "brand_key_lower_idx", "invitation_address", "manager_username_key", "person_email_address_key",
    }  # fmt: skip


def test_the_list_of_characters_that_the_database_folds_is_complete(sql: Sql) -> None:
    rows = sql.rows(
        "select chr(n) as character from generate_series(128, 1114111) n where n not between 55296 and 57343"
        " and octet_length(lower(chr(n))) = length(lower(chr(n)))"
    )
    folded = {row["character"] for row in rows}
    assert {"\u0130", "\u212a"} <= folded <= {character for character, _ in folded_characters()}


def test_normal_forms_are_unique(sql: Sql) -> None:
    rows = sql.rows(
        "select indexname, indexdef ~ 'UNIQUE' as is_unique from pg_indexes where indexdef ~ 'address_form,? ?'"
    )
    unique = {row["indexname"] for row in rows if row["is_unique"]}
    assert unique == {"invitation_address_form", "manager_address_form", "person_address_form"}


def test_every_insert_sets_the_normal_form() -> None:
    """A row without it matches only one spelling until housekeeping fills it."""
    columns = [
        (name, match[1])
        for name, tree in modules(re.compile(r"insert into"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for match in INSERT.finditer(node.value)
    ]
    assert len(columns) >= 6
    assert [each for each in columns if "address_form" not in each[1]] == []
