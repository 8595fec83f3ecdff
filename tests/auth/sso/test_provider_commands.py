"""The operator's commands for providers, as in docs/single-sign-on.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auth.sso.oidc_provider import Oidc
from tests.cli.test_operator_commands import Operator
from tests.docs.code_blocks import block
from tests.support.servers import SCRIPT_DEADLINE, Sql, migrated_database

pytestmark = pytest.mark.cluster

PAGE = "docs/single-sign-on.md"


@pytest.fixture(scope="module")
def operator(database_server: str) -> Iterator[Operator]:
    with migrated_database(database_server) as dsn:
        yield Operator(dsn)


def test_the_commands_of_the_page_work(database_server: str, oidc: Oidc, tmp_path: Path) -> None:
    """As written, except for the address of the provider."""
    (tmp_path / "client-secret.txt").write_text("the client's secret\n")
    shown = block(PAGE, "provider").text.replace("https://login.example.com", oidc.issuer)
    with migrated_database(database_server) as dsn:
        keyrack = f'keyrack() {{ {sys.executable} -m keyrack "$@"; }}\n'
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", keyrack + shown], cwd=tmp_path, capture_output=True, text=True,
            env=os.environ | {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_PROVIDER_LOOPBACK": "true"},
            timeout=SCRIPT_DEADLINE,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        assert "/console/sign-in/callback" in ran.stdout and "its keys are readable" in ran.stdout
        assert re.search(r"corp +.*keyrack.*RS256.*ES256.*example.com", ran.stdout)
        sql = Sql(dsn)
        kept = sql.value("select client_secret from provider")
        assert b"secret" not in kept and kept[:1] == b"\x01"
        told = sql.rows("select kind, before::text || after::text as members from change_inbox where kind ~ 'provider'")
        assert "the client" not in str(told)
        sql.close()


GIVEN = ("--issuer", "https://login.example.com", "--client-id", "keyrack", "--client-secret", "-")


def test_a_provider_is_added_changed_and_removed(operator: Operator) -> None:
    made = operator.value("provider", "add", "one", *GIVEN, "--domain", "One.Example", stdin="a secret\n")
    assert made["name"] == "one" and "secret" not in str(made)
    (row,) = operator.value("provider", "list")
    assert (row["domains"], row["algorithms"], row["countsMfa"]) == (["one.example"], ["RS256"], False)
    operator.value("provider", "change", "one", "--domain", "two.example", "--remove-domain", "one.example", "--mfa")
    operator.value("provider", "change", "one", "--domain", "two.example", "--client-secret", "-", stdin="another\n")
    (row,) = operator.value("provider", "list")
    assert (row["domains"], row["countsMfa"]) == (["two.example"], True)
    status, _, errors = operator.quick("provider", "add", "two", *GIVEN, "--domain", "two.example", stdin="x\n")
    assert (status, "another provider's" in errors) == (1, True)
    status, _, errors = operator.quick("provider", "add", "one", *GIVEN, stdin="x\n")
    assert (status, "already a provider called one" in errors) == (1, True)
    assert "was not reached" in operator.refused("provider", "check", "one")
    operator.value("provider", "change", "one", "--domain", "Bücher.Example")
    assert operator.value("provider", "list")[0]["domains"] == ["two.example", "xn--bcher-kva.example"]
    operator.value("provider", "change", "one", "--remove-domain", "bu\u0308cher.example")
    assert "is not a domain" in operator.refused("provider", "change", "one", "--domain", "☃.example", status=2)
    sql = Sql(operator.dsn)
    operator.value("customer", "add", "Harbour")
    alone = ("--role", "viewer", "--no-password")
    manager = operator.value("manager", "add", "kim@two.example", "--customer", "Harbour", *alone)
    assert "password" not in manager
    sql.execute(
        "insert into manager_identity (provider_id, subject, manager_id) values ($1, 'k', $2)", row["id"], manager["id"]
    )
    assert "Affected: 1 connected accounts" in operator.refused("provider", "remove", "one")
    operator.value("manager", "disconnect", manager["id"], "--provider", "one")
    assert "no account of provider" in operator.refused("manager", "disconnect", manager["id"], "--provider", "one")
    operator.value("provider", "remove", "one")
    assert operator.value("provider", "list") == []
    sql.close()


def test_a_provider_signs_in_the_drivers_of_one_customer(operator: Operator) -> None:
    customer = operator.value("customer", "add", "Drivers")["id"]
    made = operator.value("provider", "add", "fleet", *GIVEN, "--drivers", "Drivers", stdin="a secret\n")
    assert made["driversRedirectUri"].endswith("/drive/sso")

    def of_drivers() -> int | None:
        (row,) = operator.value("provider", "list")
        return row["driverCustomerId"]

    assert of_drivers() == customer
    operator.value("provider", "change", "fleet", "--label", "Fleet")
    assert of_drivers() == customer
    both = operator.refused("provider", "change", "fleet", "--drivers", "Drivers", "--no-drivers", status=2)
    assert "exclude each other" in both
    operator.value("provider", "change", "fleet", "--no-drivers")
    assert of_drivers() is None
    changed = operator.value("provider", "change", "fleet", "--drivers", customer)
    assert (changed["driversRedirectUri"], of_drivers()) == (made["driversRedirectUri"], customer)
    assert "There is no customer 999999" in operator.refused("provider", "change", "fleet", "--drivers", "999999")
    assert of_drivers() == customer
    operator.value("provider", "remove", "fleet")


@pytest.mark.parametrize(
    "wrong",
    [
        ("Upper", *GIVEN),
        ("-x", *GIVEN),
        ("x" * 33, *GIVEN),
        ("one", *GIVEN, "--algorithm", "HS256"),
        ("one", *GIVEN, "--algorithm", "none"),
        ("one", *GIVEN, "--domain", "kim@example.com"),
        ("one", "--issuer", "http://login.example.com", *GIVEN[2:]),
        ("one", "--issuer", "http://127.0.0.1:9", *GIVEN[2:]),
        ("one", *GIVEN[:4], "--client-secret", "in the list of processes"),
    ],
)
def test_invalid_options_of_a_provider_are_refused(operator: Operator, wrong: tuple[str, ...]) -> None:
    status, output, _ = operator.quick("provider", "add", *wrong, stdin="a secret\n")
    assert (status, output) == (2, "")
    assert operator.value("provider", "list") == []
