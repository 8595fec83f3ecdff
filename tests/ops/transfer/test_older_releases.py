"""Import of the demo of the first release by its API, with failures."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_operator_commands import Operator
from tests.ops.transfer.faulty_source import Faulty
from tests.ops.transfer.test_import_api import LONG, arrive
from tests.support.servers import reachable_directory
from tests.upgrades import releases
from tests.upgrades.test_first_release import FIRST, serving

pytestmark = pytest.mark.cluster


@pytest.mark.skipif(not LONG, reason="make test-moving")
def test_the_demo_of_the_first_release_can_be_imported(own: str) -> None:
    target = Operator(own)
    with reachable_directory() as base:
        state, old = base / "state", releases.earlier(base, FIRST)
        with serving(old, state, "demo") as told:
            pass  # the demo's fleet drives while it runs, but the comparison needs fixed rows
        customer = target.value("customer", "add", "From 0.1.0")["id"]
        with serving(old, state, "serve") as where, Faulty(where["url"].removesuffix("/v3")) as source:
            names = ("API_KEY", "USERNAME", "PASSWORD", "CUSTOMER_ID")
            env = {f"KEYRACK_SOURCE_{name}": told[f"KEYRACK_{name}"] for name in names}
            result = target.value(*arrive(customer), env=env | {"KEYRACK_SOURCE_URL": f"{source.url}/v3"})
            assert source.failed > 5
    print(f"\n{json.dumps(result['kinds'])}")
    assert result["agrees"], result["differences"]
    assert result["refused"] == []
    assert all(row["new"] for row in result["kinds"] if row["kind"] in ("cars", "users", "assignments", "events"))
