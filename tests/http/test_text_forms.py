"""Unicode text is stored, found, filtered and imported in one normal form."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from unicodedata import normalize
from urllib.parse import quote

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.core.text import is_blank, trimmed
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person
from tests.support.servers import Sql

LETTERS = st.sampled_from(
    "Aa\u00e9\u00dc\u00df\u00f1\u00c5\u212b\u1ec7\u01d6\uac01\u304c\u0119\u03a9\u2126 -1e\u0301\u0323\u0308\u1161"
)
FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
TEXTS = st.text(LETTERS, min_size=1, max_size=12).filter(lambda text: not is_blank(text) and trimmed(text) == text)


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """Two spellings of one text. Each character is composed, decomposed or unchanged."""
    text = draw(TEXTS)
    forms = draw(st.lists(st.sampled_from(FORMS), min_size=len(text), max_size=len(text)))
    mixed = "".join(normalize(form, character) for form, character in zip(forms, text, strict=True))
    return draw(st.sampled_from([mixed, normalize("NFD", text)])), draw(st.sampled_from([text, mixed]))


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spellings())
def test_every_spelling_is_stored_and_found_as_one_text(carol: Person, both: tuple[str, str]) -> None:
    sent, sought = both
    expected = normalize("NFC", sent)
    car = carol.car(sent, licensePlate=sent, description=sent, brand=sent)
    try:
        row = carol.get(f"/cars/{car}").json()
        assert {row[name] for name in ("name", "licensePlate", "description", "brand")} == {expected}
        literal = sought.replace("'", "''")
        for condition in (f"name eq '{literal}'", f"contains(brand,'{literal}')", f"name in ('x','{literal}')"):
            answer = carol.get("/cars", params={"$filter": f"id eq {car} and {condition}"})
            assert [found["id"] for found in answer.json()] == [car], condition
        answer = carol.get("/cars", params={"$search": f'"{sought}"', "$filter": f"id eq {car}"})
        assert [found["id"] for found in answer.json()] == [car]
        patch = [{"op": "replace", "path": "/name", "value": sought}]
        assert carol.patch(f"/cars/{car}", patch).status_code == 204
        assert carol.get(f"/cars/{car}").json()["name"] == normalize("NFC", sought) == expected
    finally:
        carol.delete(f"/cars/{car}")


def test_group_names_are_unique_across_spellings(carol: Person) -> None:
    assert carol.put("/groups", {"name": "Caf\u00e9"}).status_code == 201
    assert carol.put("/groups", {"name": "Cafe\u0301"}).status_code == 409


def test_names_of_users_are_normalised_and_addresses_are_not(carol: Person) -> None:
    user = carol.user("Ju\u0308rgen@example.org", userData={"firstName": "Ju\u0308rgen", "lastName": "Gro\u0308ß"})
    row = carol.get(f"/users/{user}").json()
    assert row["userData"] == {"firstName": "Jürgen", "lastName": "Größ"}
    assert row["emailAddress"] == "Ju\u0308rgen@example.org"
    again = carol.put("/users", {"emailAddress": "jürgen@example.org", "userData": row["userData"]})
    assert again.status_code == 409


def test_passwords_are_not_normalised(carol: Person, sql: Sql) -> None:
    password = "pa\u0308ssword of a phone"
    user = carol.user(type="Normal", password=password)
    stored = sql.value("select password_hash from person where user_id = $1", user)
    assert PasswordHasher().verify(stored, password)
    with pytest.raises(VerifyMismatchError):
        PasswordHasher().verify(stored, normalize("NFC", password))


def test_a_brand_in_a_path_matches_every_spelling(carol: Person, operator: Operator) -> None:
    form = operator.value("brand", "add", "Cafe\u0301mobil", "--key-form", "Cle\u0301 1")
    assert form["id"]
    for spelling in ("Cafémobil", "Cafe\u0301mobil", "CAFE\u0301MOBIL"):
        answer = carol.get(f"/brands/{quote(spelling)}/keys")
        assert [key["brand"] for key in answer.json()] == ["Cafémobil"], spelling
    assert "Cafémobil" in carol.get("/brands").json()


def test_the_command_line_normalises_text(operator: Operator, sql: Sql) -> None:
    customer = operator.value("customer", "add", "Mu\u0308ller")["id"]
    assert sql.value("select name from customer where customer_id = $1", customer) == "Müller"
    assert operator.value("customer", "change", "Mu\u0308ller", "--name", "Mo\u0308ller")["id"] == customer
    assert sql.value("select name from customer where customer_id = $1", customer) == "Möller"


def test_imported_text_is_normalised(operator: Operator, sql: Sql, tmp_path: Path) -> None:
    file = tmp_path / "brands.csv"
    file.write_text("brand,keyForm,boxName\nLie\u0301ge,Cle\u0301 2,Boi\u0302te\n", "utf-8")
    assert operator.value("import", "brands", file) == {"imported": 1}
    assert sql.value("select box_name from brand_key where brand = 'Liége'") == "Boîte"
