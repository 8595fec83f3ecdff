"""Codes of refusals: what a program can rely on. Each has one meaning, and one status."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import keyrack
from keyrack.documents.refusals import refusals
from keyrack.endpoints import ALL
from keyrack.errors import NotFound
from keyrack.reasons import Reason

SOURCE = Path(keyrack.__file__).parent
KEPT = SOURCE / "api/idempotency.py"  # whose reasons are read again
KEBAB = re.compile(r"[a-z]+(-[a-z]+)*")


def written() -> Iterator[str]:
    """The code of every reason that stands anywhere in the source; `*` where a part of it is filled in."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason":
                code = node.args[0]
                if isinstance(code, ast.Subscript) and file == KEPT:
                    continue
                if isinstance(code, ast.JoinedStr):
                    yield "".join(part.value if isinstance(part, ast.Constant) else "*" for part in code.values)
                else:
                    assert isinstance(code, ast.Constant), ast.unparse(node)
                    yield code.value


def test_a_code_is_kebab_case_and_given_once() -> None:
    """Given twice, it could mean two things; where a reason is used twice it is the same constant."""
    codes = list(written())
    assert len(codes) > 80
    assert [code for code in codes if not KEBAB.fullmatch(code.replace("*", "thing"))] == []
    assert [code for code, count in Counter(codes).items() if count > 1] == []


def test_a_code_has_one_status() -> None:
    found: dict[str, set[int]] = {}
    for endpoint in ALL:
        for status, reasons in refusals(endpoint).items():
            for reason in reasons:
                found.setdefault(reason.code, set()).add(status)
    assert {code: several for code, several in found.items() if len(several) > 1} == {}


def test_a_reason_in_other_words_keeps_its_code() -> None:
    reason = Reason("too-long", "It is longer than {most}.")
    assert str(reason.format(most=3)) == "It is longer than 3."
    assert reason.format(most="{x}").text == "It is longer than {x}."
    assert {reason.code, reason.format(most=3).code, reason.saying("No.").code} == {"too-long"}
    assert NotFound(reason).text == str(NotFound(reason)) == reason.text
