"""What a refusal says is short, whatever was sent."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from keyrack.api.endpoint import JsonBody
from keyrack.api.odata import OPTIONS
from keyrack.http.routes import ALL
from tests.http.test_contract import called
from tests.support.people import Person, refused

LONGEST = 1_000  # characters
WRITES = [endpoint for endpoint in ALL if isinstance(endpoint.body, JsonBody)]
STEP: dict[str, Any] = {"op": "replace", "path": "/name", "value": "x"}
BODIES: dict[str, Any] = {
    "unknown members": {f"member{number}": number for number in range(20_000)},
    "a long member": {"n" * 300_000: 1},
    "a long value": dict.fromkeys(("name", "url", "secret", "start", "emailAddress", "type"), "v" * 300000),
    "a long list": {name: ["v"] * 30_000 for name in ("name", "kinds", "carId", "userData")},
    "deep": json.loads("[" * 100 + "]" * 100),
    "many steps": [{"op": "x" * 50, "path": "y" * 50, **{f"z{n}": n for n in range(20)}}] * 500,
    "steps with unknown members": [{**STEP, **{f"z{n}" * 9: n for n in range(500)}}] * 50,
    "a long step": [{**STEP, "path": "/" + "p" * 300_000}],
}


@pytest.mark.parametrize("junk", BODIES)
@pytest.mark.parametrize("strict", [{}, {"Prefer": "handling=strict"}], ids=["", "strict"])
def test_what_is_wrong_with_a_body_is_told_shortly(alice: Person, junk: str, strict: dict[str, str]) -> None:
    """B11: the errors of a body are bounded in number and in length."""
    content = json.dumps(BODIES[junk])
    headers = {"Content-Type": "application/json", **strict}
    for endpoint in WRITES:
        answer = called(endpoint, alice, content=content, headers=headers)
        assert 400 <= answer.status_code < 500, (endpoint.path, answer.text[:200])
        assert len(answer.text) <= LONGEST, (endpoint.path, answer.text[:200])


def test_nobody_looks_at_all_errors_of_a_body(alice: Person) -> None:
    """B11: beyond a number of them, that number is all that is told; below, the first ones are named."""
    body = {f"member{number}": number for number in range(300)}
    refused(alice.put("/assignments", body), 400, "Couldn't create assignment. The body has more than 200 errors.")
    few = dict(list(body.items())[:100])
    told = " ".join(f"There is no property 'member{number}'." for number in range(5))
    refused(alice.put("/assignments", few), 400, f"Couldn't create assignment. {told}")


TEXTS = [
    "x" * 8_000,
    "/".join(["name"] * 1_600),
    "/".join("n" * 128 for _ in range(60)),
    "name eq " + "9" * 7_000,
    "name eq '" + "x" * 7_000,
    "nothing" * 500 + "(1)",
    "(" * 4_000,
    ",".join("n" * 127 + str(number) for number in range(60)),
    "name($" + "x" * 7_000 + ")",
    "name eq duration'" + "x" * 7_000 + "'",
    "products(" + ";".join(["$filter=" + "x" * 100] * 60) + ")",
    "\u00e4" * 1_300,
]


@pytest.mark.parametrize("option", [*OPTIONS, "apply", "compute", "none", "none" * 1_000])
def test_what_is_wrong_with_a_query_is_told_shortly(alice: Person, option: str) -> None:
    """B11: the same of OData's messages."""
    for text in TEXTS:
        answer = alice.get(f"/cars?${option}={quote(text)[: 8_100 - len(option)].rstrip('%')}")
        assert answer.status_code in (200, 400, 501), answer.text[:200]
        assert answer.status_code == 200 or len(answer.text) <= LONGEST, answer.text[:200]
