"""Brands: the keyfob tool. The catalogue belongs to no customer and is the same for every manager."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest

from tests.support.people import Person, refused, web
from tests.support.servers import RunningServer, Sql

NO_BRAND = "Unable to find the given brand."
INVALID = "Invalid brand provided."
NO_DRAWING = "Unable to find a drawing for the given keyFormId."


class Catalogue(NamedTuple):
    brand: str
    form: int
    other_form: int
    keys: list[int]


@pytest.fixture(scope="module")
def catalogue(sql: Sql) -> Iterator[Catalogue]:
    brand = f"Citroën & Søn/{os.getpid()}"
    form = sql.value(
        "insert into key_form (name, drawing) values ($1, '<svg xmlns=\"http://www.w3.org/2000/svg\"/>')"
        " returning key_form_id",
        f"Flip {os.getpid()}",
    )
    other = sql.value(
        "insert into key_form (name, image_url) values ($1, 'https://example.org/key.png') returning key_form_id",
        f"Card {os.getpid()}",
    )
    insert = (
        "insert into brand_key (brand, box_name, box_sap_number, key_form_id) values ($1, $2, $3, $4)"
        " returning brand_key_id"
    )
    keys = [sql.value(insert, brand, "Box A", "100", form), sql.value(insert, brand, None, None, other)]
    sql.value(insert, brand + " Sport", "Box A", "100", form)
    yield Catalogue(brand, form, other, keys)
    sql.execute("delete from brand_key where brand like $1 || '%'", brand)
    sql.execute("delete from key_form where key_form_id = any($1)", [form, other])


def test_brands_are_listed_once_for_all_managers(alice: Person, bob: Person, catalogue: Catalogue) -> None:
    answer = alice.get("/brands")
    assert answer.status_code == 200
    brands = answer.json()
    assert brands.count(catalogue.brand) == 1
    assert catalogue.brand + " Sport" in brands
    assert len(set(brands)) == len(brands)
    assert bob.get("/brands").content == answer.content


def test_the_keys_of_a_brand(alice: Person, server: RunningServer, catalogue: Catalogue) -> None:
    answer = alice.get(f"/brands/{quote(catalogue.brand, safe='')}/keys")
    assert answer.status_code == 200
    assert answer.json() == [
        {
            "id": catalogue.keys[0],
            "brand": catalogue.brand,
            "boxName": "Box A",
            "boxSapNumber": "100",
            "keyForm": {
                "id": catalogue.form,
                "name": f"Flip {os.getpid()}",
                "imageUrl": f"{server.url}/key-forms/{catalogue.form}.svg",
            },
        },
        {
            "id": catalogue.keys[1],
            "brand": catalogue.brand,
            "boxName": None,
            "boxSapNumber": None,
            "keyForm": {
                "id": catalogue.other_form,
                "name": f"Card {os.getpid()}",
                "imageUrl": "https://example.org/key.png",
            },
        },
    ]


def test_brand_names_ignore_case(alice: Person, catalogue: Catalogue) -> None:
    answers = [
        alice.get(f"/brands/{quote(name, safe='')}/keys")
        for name in (catalogue.brand, catalogue.brand.lower(), f" {catalogue.brand} ")
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("brand", ["Nobody", "%27", "x" * 250, "A%25", "1"])
def test_an_unknown_brand_gets_404(alice: Person, brand: str) -> None:
    refused(alice.get(f"/brands/{brand}/keys"), 404, NO_BRAND)


@pytest.mark.parametrize("brand", ["%20", "%09", "%00", "A%00B", "%FF", "x" * 251, "A%0AB", "%C2%A0"])
def test_an_invalid_brand_name_gets_400(alice: Person, brand: str) -> None:
    refused(alice.get(f"/brands/{brand}/keys"), 400, INVALID)


def test_the_drawing_of_a_key_form(server: RunningServer, alice: Person, catalogue: Catalogue) -> None:
    (url,) = [
        key["keyForm"]["imageUrl"]
        for key in alice.get(f"/brands/{quote(catalogue.brand, safe='')}/keys").json()
        if key["keyForm"]["id"] == catalogue.form
    ]
    answer = web().get(url)
    assert (answer.status_code, answer.text) == (200, '<svg xmlns="http://www.w3.org/2000/svg"/>')
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_missing_drawing_gets_404(server: RunningServer, catalogue: Catalogue) -> None:
    for id in (catalogue.other_form, 2147483647, 0, -1, "x", 2**31):
        refused(web().get(f"{server.url}/key-forms/{id}.svg"), 404, NO_DRAWING)


def test_the_keys_of_all_brands(alice: Person, bob: Person, catalogue: Catalogue) -> None:
    ours = f"startswith(brand,'{catalogue.brand}')"
    answer = alice.get("/keys", params={"$filter": ours, "$orderby": "id"})
    assert answer.status_code == 200
    assert [key["brand"] for key in answer.json()] == [catalogue.brand, catalogue.brand, catalogue.brand + " Sport"]
    by_brand = f"filter({ours})/groupby((brand),aggregate(keyForm/id with countdistinct as forms))"
    answer = alice.get("/keys", params={"$apply": by_brand, "$orderby": "brand"})
    assert answer.json() == [
        {"brand": catalogue.brand, "forms": 2}, {"brand": catalogue.brand + " Sport", "forms": 1},
    ]  # fmt: skip
    assert bob.get("/keys").content == alice.get("/keys").content
    assert alice.get("/keys", params={"$filter": "brand eq 'Nobody'"}).json() == []
