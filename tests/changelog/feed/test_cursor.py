"""The change feed as a list, read from a cursor."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from keyrack.changelog.feed import CURSOR_GONE, EPOCH, NEWEST, OLDEST
from tests.changelog.feed.change_rows import WHO, epoch, made
from tests.support.people import Person

PROBLEM = {"Accept": "application/problem+json"}


def ids(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [change["id"] for change in answer.json()]


def head(answer: httpx.Response) -> tuple[str | None, str, str]:
    return answer.headers.get(EPOCH), answer.headers[OLDEST], answer.headers[NEWEST]


# The representation of a change


def test_the_representation_of_a_change(carol: Person) -> None:
    who = WHO | {
        "onBehalfOf": {"type": "user", "id": "9", "name": "Uma"}, "address": "192.0.2.7", "requestId": "r",
        "operationId": str(uuid.uuid4()),
    }  # fmt: skip
    made(carol, before={"name": "Old"}, after={"name": "New"}, who=who, groups=[3, 5])
    (change,) = carol.get("/changes").json()
    time, recorded = change.pop("time"), change.pop("recordedTime")
    assert time == recorded and time.endswith("Z")
    assert change == {
        "id": 1,
        "kind": "car.updated",
        "resource": "car",
        "resourceId": "1",
        "actor": WHO,
        "onBehalfOf": {"type": "user", "id": "9", "name": "Uma"},
        "address": "192.0.2.7",
        "requestId": "r",
        "operationId": who["operationId"],
        "groups": [3, 5],
        "before": {"name": "Old"},
        "after": {"name": "New"},
    }


@pytest.mark.parametrize(
    ("before", "after", "personal", "shown"),
    [
        (None, {"name": "New"}, None, (None, {"name": "New"})),
        ({"name": "Old"}, None, None, ({"name": "Old"}, None)),
        ({"type": "A"}, {"type": "B"}, {"before": {"firstName": "U"}, "after": {"firstName": "V"}},
         ({"type": "A", "firstName": "U"}, {"type": "B", "firstName": "V"})),
        (None, None, {"before": None, "after": {"firstName": "V"}}, (None, {"firstName": "V"})),
        (None, {"type": "B"}, {"after": {"firstName": "V"}}, (None, {"type": "B", "firstName": "V"})),
    ],
    ids=["made", "removed", "personal too", "personal alone", "personal and made"],
)  # fmt: skip
def test_personal_members_are_among_the_others(
    carol: Person, before: Any, after: Any, personal: Any, shown: tuple[Any, Any]
) -> None:
    made(carol, before=before, after=after, **({"person": personal} if personal else {}))
    (change,) = carol.get("/changes").json()
    assert (change["before"], change["after"]) == shown


def test_erased_content_is_null(carol: Person) -> None:
    made(carol, before={"name": "Old"}, after={"name": "New"}, person={"after": {"firstName": "U"}})
    carol.sql.execute(
        "update change set who = null, before = null, after = null, person = null where customer_id = $1",
        carol.customer,
    )
    (change,) = carol.get("/changes").json()
    assert change["actor"] == {"type": None, "id": None, "name": None}
    assert (change["before"], change["after"], change["onBehalfOf"], change["kind"]) == (
        None,
        None,
        None,
        "car.updated",
    )


# Options


def test_a_log_without_a_change(carol: Person) -> None:
    for query in ("", "?$filter=id gt 0"):
        answer = carol.get(f"/changes{query}")
        assert (answer.json(), head(answer)) == ([], (None, "1", "0"))


def test_headers_describe_the_log(carol: Person) -> None:
    made(carol, 3)
    for answer in (carol.get("/changes?$top=0"), carol.call("HEAD", "/changes")):
        assert head(answer) == (epoch(carol), "1", "3")


def test_list_options_work_as_for_other_lists(carol: Person) -> None:
    made(carol, 3, "car.created", after={"name": "x"})
    made(carol, 2, "user.updated", who=WHO | {"id": "8"})
    assert ids(carol.get("/changes")) == [1, 2, 3, 4, 5]
    assert ids(carol.get("/changes?$orderby=id desc&$top=2&$skip=1")) == [4, 3]
    assert ids(carol.get("/changes?$filter=kind eq 'car.created' and resourceId eq '2'")) == [2]
    assert ids(carol.get("/changes?$filter=actor/id eq '8'")) == [4, 5]
    assert ids(carol.get("/changes?$filter=startswith(kind, 'user.') and id gt 4")) == [5]
    assert carol.get("/changes?$select=id,after&$top=1").json() == [{"id": 1, "after": {"name": "x"}}]
    assert carol.get("/changes?$count=true&$top=1").headers["x-total-count"] == "5"
    assert carol.get("/changes?$apply=groupby((kind),aggregate($count as n))&$orderby=kind").json() == [
        {"kind": "car.created", "n": 3}, {"kind": "user.updated", "n": 2},
    ]  # fmt: skip


def test_on_behalf_of_is_returned_and_filterable(carol: Person) -> None:
    anna = {"type": "manager", "id": "7", "name": "anna"}
    made(carol)
    made(carol, who=WHO | {"onBehalfOf": anna})
    assert ids(carol.get("/changes?$filter=onBehalfOf/name eq 'anna'")) == [2]
    assert ids(carol.get("/changes?$filter=onBehalfOf/id eq null")) == [1]
    for query in ("", "?$compute=id add 1 as next", "?$select=onBehalfOf"):
        assert [change["onBehalfOf"] for change in carol.get(f"/changes{query}").json()] == [None, anna], query
    parts = carol.get("/changes?$select=onBehalfOf/name").json()
    assert [change["onBehalfOf"] for change in parts] == [None, {"name": "anna"}]


def test_descending_order_returns_the_newest_first(carol: Person) -> None:
    made(carol, 5)
    assert ids(carol.get("/changes?$orderby=id desc&$top=2")) == [5, 4]
    assert ids(carol.get("/changes?$orderby=id desc&$top=2&$filter=id lt 4")) == [3, 2]
    assert ids(carol.get("/changes?$orderby=id&$top=2&$filter=id ge 4")) == [4, 5]
    assert ids(carol.get("/changes?$orderby=id desc&$filter=id gt 3")) == [5, 4]
    assert carol.get("/changes?$orderby=id desc&$filter=id gt 6").status_code == 410


def test_paging_over_everything_by_the_cursor(carol: Person) -> None:
    made(carol, 2_300)
    found: list[int] = []
    while page := ids(carol.get(f"/changes?$filter=id gt {found[-1] if found else 0}")):
        assert len(page) <= 1_000
        found += page
    assert found == list(range(1, 2_301))
    by_links: list[int] = []
    address = "/changes?$filter=id gt 100"
    while address:
        answer = carol.get(address)
        by_links += ids(answer)
        address = answer.links["next"]["url"] if "next" in answer.links else ""
    assert by_links == list(range(101, 2_301))


def test_changes_of_all_classes_are_one_log(carol: Person) -> None:
    for number in (3, 1, 4, 2):
        made(carol)
        carol.sql.execute("update change_log set class = $2 where customer_id = $1", carol.customer, number)
    assert ids(carol.get("/changes")) == [1, 2, 3, 4]
    assert ids(carol.get("/changes?$filter=id gt 1&$top=2")) == [2, 3]


def test_a_client_with_the_current_list_gets_304(carol: Person) -> None:
    made(carol)
    tag = carol.get("/changes").headers["etag"]
    assert carol.get("/changes", headers={"If-None-Match": tag}).status_code == 304
    made(carol)
    answer = carol.get("/changes", headers={"If-None-Match": tag})
    assert ids(answer) == [1, 2]


def test_a_neighbour_sees_nothing(carol: Person, alice: Person) -> None:
    made(carol, 3)
    made(alice)
    before = alice.get("/changes")
    made(carol, 2)
    after = alice.get("/changes")
    assert (after.content, head(after)) == (before.content, head(before))
    made(alice)
    assert ids(carol.get("/changes")) == [1, 2, 3, 4, 5]
    assert head(carol.get("/changes")) == (epoch(carol), "1", "5") != head(alice.get("/changes"))


# Invalid cursors


def gone(answer: httpx.Response) -> dict[str, Any]:
    """The properties of a 410 problem, which equal its headers."""
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (410, 410, CURSOR_GONE.code)
    told = {name: problem[name] for name in ("epoch", "oldest", "newest")}
    assert head(answer) == (told["epoch"], str(told["oldest"]), str(told["newest"]))
    return told


@pytest.mark.parametrize("number", ["-1", "2", "6", "9223372036854775807"])
@pytest.mark.parametrize("form", ["id gt {}", "{} lt id", "kind eq 'car.updated' and (id gt {} and id gt -5)"])
def test_a_cursor_outside_the_log_gives_410(carol: Person, form: str, number: str) -> None:
    made(carol, 5)
    carol.sql.execute("update change_log set oldest_id = 4 where customer_id = $1", carol.customer)
    answer = carol.get("/changes", params={"$filter": form.format(number)}, headers=PROBLEM)
    assert gone(answer) == {"epoch": epoch(carol), "oldest": 4, "newest": 5}
    for right in (3, 4, 5):
        assert carol.get("/changes", params={"$filter": form.format(right)}).status_code == 200


def test_a_cursor_by_an_alias(carol: Person) -> None:
    made(carol)
    assert ids(carol.get("/changes?$filter=id gt @n&@n=0")) == [1]
    assert gone(carol.get("/changes?$filter=id gt @n&@n=2", headers=PROBLEM))["newest"] == 1
    assert gone(carol.get("/changes?$filter=id gt @n&@n=@m&@m=2", headers=PROBLEM))["newest"] == 1
    assert ids(carol.get("/changes?$filter=id gt @nowhere")) == [], "an alias that stands for nothing is null"


@pytest.mark.parametrize(
    "condition", ["id gt 7 or id gt 0", "not (id gt 7)", "id ge 0", "recordedTime gt 2001-01-01T00:00:00Z"]
)
def test_other_conditions_are_not_cursors(carol: Person, condition: str) -> None:
    made(carol)
    assert ids(carol.get("/changes", params={"$filter": condition})) == [1]


def test_a_cursor_of_another_epoch_gives_410(carol: Person) -> None:
    query = f"/changes?$filter=id gt 0&epoch={uuid.uuid4()}"
    assert gone(carol.get(query, headers=PROBLEM)) == {"epoch": None, "oldest": 1, "newest": 0}
    made(carol, 2)
    assert gone(carol.get(query, headers=PROBLEM)) == {"epoch": epoch(carol), "oldest": 1, "newest": 2}
    assert ids(carol.get(f"/changes?$filter=id gt 1&epoch={epoch(carol)}")) == [2]
    plain = carol.get(query)
    told = CURSOR_GONE.format(oldest=1, newest=2, epoch=epoch(carol))
    assert (plain.status_code, plain.text) == (410, str(told))


@pytest.mark.parametrize("query", ["epoch=yesterday", "epoch=", "epoch=1&epoch=1"])
def test_an_invalid_epoch_is_rejected(carol: Person, query: str) -> None:
    answer = carol.get(f"/changes?{query}", headers=PROBLEM)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-query-parameter")
    assert answer.json()["errors"][0]["parameter"] == "epoch"
