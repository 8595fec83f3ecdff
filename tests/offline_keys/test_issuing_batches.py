"""Keys of several phones in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from keyrack.core.settings import Settings
from keyrack.db.audit_context import Actor
from keyrack.db.encryption.cipher import Encryption
from keyrack.offline_keys.issuing_keys import InconsistentKeys, IssuingKeySigners
from keyrack.offline_keys.key_issuing import AskingPhone, DuePhone, IssuedKeys, KeyIssuer, NoDevice
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.timestamps import now
from keyrack.server.worker import connect
from tests.offline_keys.inspection import claims_of, places
from tests.offline_keys.offline_world import Phone, driver, garage, raw
from tests.support.people import Person
from tests.support.servers import eventually


def issued(
    dsn: str, settings: Settings, person: Person, phones: Sequence[Phone], assignments: Sequence[int]
) -> list[IssuedKeys | Exception]:
    """The results of one batch for these phones."""

    async def run() -> list[IssuedKeys | Exception]:
        db = await connect(dsn, settings)
        try:
            due = frozenset(assignments)
            asked = [
                DuePhone(
                    AskingPhone(UUID(phone.subject), phone.key.public.thumbprint, now()),
                    due,
                    Actor("user", phone.subject, request=f"request {number}"),
                )
                for number, phone in enumerate(phones)
            ]
            issuer = KeyIssuer(IssuingKeySigners(Encryption(db, settings)), settings)
            return await issuer(db, person.customer, [[each] for each in asked])
        finally:
            await db.close()

    return asyncio.run(run())


def tokens(results: Sequence[IssuedKeys | Exception]) -> list[list[bytes]]:
    """The keys of each phone; none of an error."""
    return [[key.token for key in each.keys] if isinstance(each, IssuedKeys) else [] for each in results]


def test_each_phone_gets_its_own_key_and_is_its_actor(alice: Person, dsn: str, settings: Settings) -> None:
    car, box = garage(alice)
    phones = [driver(alice) for _ in range(3)]
    assignments = [alice.assignment(car, phone.user) for phone in phones]
    keys = [key for (key,) in tokens(issued(dsn, settings, alice, phones, assignments))]
    assert [claims_of(key)["assignment"] for key in keys] == assignments
    assert [claims_of(key)["cnf"] for key in keys] == [phone.key.public for phone in phones]
    assert len(set(places(*keys))) == len(keys)
    for phone, key in zip(phones, keys, strict=True):
        assert [raw(held["key"]) for held in phone.fetch()["keys"]] == [key]
        assert phone.fetch()["boxes"][0]["productId"] == box.product
    wanted = {
        str(UUID(bytes=claims_of(key)["cti"])): (phone.subject, f"request {number}")
        for number, (phone, key) in enumerate(zip(phones, keys, strict=True))
    }

    def recorded() -> dict[str, tuple[str, str]]:
        answer = alice.get("/changes", params={"$filter": "kind eq 'key.issued'", "$orderby": "id desc", "$top": "3"})
        return {change["resourceId"]: (change["actor"]["name"], change["requestId"]) for change in answer.json()}

    eventually(lambda: recorded() == wanted, "the changes, each with the phone that asked")


def test_a_phone_that_asks_twice_gets_one_key(alice: Person, dsn: str, settings: Settings) -> None:
    car, _ = garage(alice)
    kim = driver(alice)
    assignment = alice.assignment(car, kim.user)
    first, second = tokens(issued(dsn, settings, alice, [kim, kim], [assignment]))
    assert first == second == [raw(held["key"]) for held in kim.fetch()["keys"]]


def test_phones_of_one_batch_share_the_limit_of_their_assignment(alice: Person, dsn: str, settings: Settings) -> None:
    car, _ = garage(alice)
    kim = driver(alice)
    assignment = alice.assignment(car, kim.user)
    phones = [replace(kim, key=PrivateKey.generate()) for _ in range(3)]
    for phone in phones:
        phone.register()
    low = settings.model_copy(update={"keys_per_assignment": 2})
    results = issued(dsn, low, alice, phones, [assignment])
    assert [len(keys) for keys in tokens(results)] == [1, 1, 0]
    assert [result.withheld for result in results if isinstance(result, IssuedKeys)] == [
        {},
        {},
        {assignment: "too-many-keys"},
    ]


def test_an_error_hits_only_its_phone(alice: Person, bob: Person, dsn: str, settings: Settings) -> None:
    car, _ = garage(alice)
    kim, lee, other = driver(alice), driver(alice), driver(bob)
    unknown = replace(lee, key=PrivateKey.generate())
    assignments = [alice.assignment(car, phone.user) for phone in (kim, lee)]
    alice.sql.execute(
        "update app_device set public_key = $3 where customer_id = $1 and device_id = $2",
        alice.customer,
        lee.key.public.thumbprint,
        PrivateKey.generate().public.x * 2,
    )
    results = issued(dsn, settings, alice, [unknown, kim, lee, other], assignments)
    assert [type(result) for result in results] == [NoDevice, IssuedKeys, InconsistentKeys, NoDevice]
    assert [len(keys) for keys in tokens(results)] == [0, 1, 0, 0]


def test_an_assignment_that_has_ended_gets_no_key(alice: Person, dsn: str, settings: Settings) -> None:
    car, _ = garage(alice)
    kim, lee = driver(alice), driver(alice)
    ended, kept = (alice.assignment(car, phone.user) for phone in (kim, lee))
    alice.sql.execute("delete from assignment where customer_id = $1 and assignment_id = $2", alice.customer, ended)
    assert [len(keys) for keys in tokens(issued(dsn, settings, alice, [kim, lee], [ended, kept]))] == [0, 1]


def test_a_secret_that_does_not_open_keeps_the_key_from_its_phone(alice: Person, dsn: str, settings: Settings) -> None:
    """The key is not stored either, so it takes no place."""
    garages = [garage(alice) for _ in range(2)]
    kim, lee = driver(alice), driver(alice)
    assignments = [alice.assignment(car, phone.user) for (car, _), phone in zip(garages, (kim, lee), strict=True)]
    broken = garages[0][1].product
    alice.sql.execute(
        "update box_epoch set advertising = set_byte(advertising, 20, get_byte(advertising, 20) # 1)"
        " where customer_id = $1 and product_id = $2",
        alice.customer,
        broken,
    )
    results = issued(dsn, settings, alice, [kim, lee], assignments)
    assert [isinstance(result, Exception) for result in results] == [True, False]
    count = "select count(*) from box_key where customer_id = $1 and product_id = $2"
    counts = [alice.sql.value(count, alice.customer, box.product) for _, box in garages]
    assert counts == [0, 1]
