"""Error codes: each has one meaning and one status, and a renamed one names its old code."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import keyrack
from keyrack.core.error_codes import RENAMED, ErrorCode
from keyrack.core.errors import NotFound
from keyrack.http.openapi.error_catalog import codes, refusals
from keyrack.http.openapi.error_reference import codes_markdown, page
from keyrack.http.routes import ALL

SOURCE = Path(keyrack.__file__).parent
KEPT = SOURCE / "api/idempotency.py"  # stored errors are read again
SPEC_FRAGMENTS = {"invalid-header", "unsupported-media-type"}  # titles of the framework and of the spec
KEBAB = re.compile(r"[a-z]+(-[a-z]+)*")


def written(where: Callable[[Path], bool] = lambda _: True) -> Iterator[str]:
    """The code of every error in these source files; `*` for a placeholder."""
    for file in filter(where, SOURCE.rglob("*.py")):
        text = file.read_text()
        if "ErrorCode(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ErrorCode":
                code = node.args[0]
                if isinstance(code, ast.Call) and file == KEPT:
                    continue
                if isinstance(code, ast.JoinedStr):
                    yield "".join(part.value if isinstance(part, ast.Constant) else "*" for part in code.values)
                else:
                    assert isinstance(code, ast.Constant), ast.unparse(node)
                    yield code.value


def test_a_code_is_kebab_case_and_unique() -> None:
    """A code in two places could mean two things. An error that is used twice is one constant."""
    codes = list(written())
    assert len(codes) > 80
    assert [code for code in codes if not KEBAB.fullmatch(code.replace("*", "thing"))] == []
    assert [code for code, count in Counter(codes).items() if count > 1] == []


def test_a_code_has_one_status_and_one_meaning() -> None:
    statuses: dict[str, set[int]] = {}
    remedies: dict[str, set[str]] = {}
    for endpoint in ALL:
        for status, reasons in (*refusals(endpoint).items(), *endpoint.responses.item_errors.items()):
            for reason in reasons:
                statuses.setdefault(reason.code, set()).add(status)
                remedies.setdefault(reason.code, set()).add(reason.remedy)
    assert {code: several for code, several in statuses.items() if len(several) > 1} == {}
    assert {code: several for code, several in remedies.items() if len(several) > 1 or "" in several} == {}


def test_every_code_is_in_the_table() -> None:
    """The documents list the errors of the API. Commands and pages show texts alone."""
    known = {row.code for row in codes(ALL)}
    for code in written(lambda file: not {"cli", "console", "demo"} & set(file.parts)):
        pattern = re.compile(code.replace("*", "[a-z]+"))
        assert any(pattern.fullmatch(one) for one in known), code


def test_a_renamed_code_names_its_old_one() -> None:
    known = {row.code: row for row in codes(ALL)}
    for old, new in RENAMED.items():
        assert KEBAB.fullmatch(old) and old not in known
        assert known[new].previous == ErrorCode(new, "").previous == old
    assert len(set(RENAMED.values())) == len(RENAMED)
    assert {row.previous for row in known.values()} - {None} == set(RENAMED)
    assert ErrorCode("car-not-found", "").previous is None


def test_the_documents_lead_from_an_old_code_to_the_new_one() -> None:
    rows = codes(ALL)
    markdown, html = codes_markdown(rows), page(rows, "https://keyrack.example.com")
    for old, new in RENAMED.items():
        assert f'<a id="{old}"></a>\n\n### {new}\n' in markdown
        assert f"| `{old}` | [`{new}`](#{new}) |" in markdown
        assert f'<article id="{new}"><a id="{old}"></a>' in html


def test_a_remedy_is_one_imperative_sentence() -> None:
    for row in codes(ALL):
        assert row.remedy.endswith(".") and row.remedy[0].isupper(), row.code
        assert all(text.endswith((".", "}")) for text in row.texts) or row.code in SPEC_FRAGMENTS, row.code


def test_an_error_with_another_text_keeps_its_code() -> None:
    reason = ErrorCode("too-long", "It is longer than {most}.")
    assert str(reason.format(most=3)) == "It is longer than 3."
    assert reason.format(most="{x}").text == "It is longer than {x}."
    assert {reason.code, reason.format(most=3).code, reason.with_text("No.").code} == {"too-long"}
    assert NotFound(reason).text == str(NotFound(reason)) == reason.text
