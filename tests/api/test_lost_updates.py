"""Concurrent changes with ETags: no client overwrites a state that it has not seen."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from keyrack.api.conditional_requests import CHANGED
from tests.fleet.endpoints.test_concurrent_writes import CROWD, at_once
from tests.support.people import Person, nobody_works, web
from tests.support.servers import eventually

SEED = int(os.environ.get("KEYRACK_SEED", random.randrange(10**6)))
CLIENTS, TRIES = 6, 12


def url(person: Person, path: str) -> str:
    return str(person.client.base_url).rstrip("/") + path


def change(person: Person, path: str, tag: str, member: str, value: object) -> Callable[[], httpx.Response]:
    steps = [{"op": "replace", "path": f"/{member}", "value": value}]
    return lambda: web().patch(url(person, path), json=steps, headers=person.headers | {"If-Match": tag})


def end(person: Person, path: str, tag: str) -> Callable[[], httpx.Response]:
    return lambda: web().delete(url(person, path), headers=person.headers | {"If-Match": tag})


def one_wins(answers: list[httpx.Response], *others: int) -> None:
    """Check that one request succeeded and the others failed."""
    found = Counter(answer.status_code for answer in answers)
    assert found.pop(204) == 1, found
    assert set(found) <= set(others)
    assert {answer.text for answer in answers if answer.status_code == 412} <= {CHANGED.text}


def webhook(person: Person) -> int:
    return person.put("/webhooks", {"url": "https://hooks.invalid/"}).json()["id"]


THINGS: dict[str, tuple[Callable[[Person], int], str, Callable[[int], object]]] = {
    "/cars/{}": (lambda person: person.car(), "name", str),
    "/groups/{}": (lambda person: person.group(), "name", str),
    "/webhooks/{}": (webhook, "url", lambda n: f"https://hooks.invalid/{n}"),
    "/assignments/{}": (
        lambda person: person.assignment(person.car_with_box(), person.user()),
        "lifetime",
        lambda n: 700_000 + n,
    ),
}


@pytest.mark.parametrize("form", THINGS)
def test_one_of_several_clients_with_the_same_etag_wins(form: str, carol: Person) -> None:
    make, member, value = THINGS[form]
    path = form.format(make(carol))
    for turn in range(3):
        tag = carol.get(path).headers["etag"]
        one_wins(at_once(change(carol, path, tag, member, value(turn * CROWD + n)) for n in range(CROWD)), 412)
    tag = carol.get(path).headers["etag"]
    calls = [change(carol, path, tag, member, value(100 + n)) for n in range(CROWD // 2)]
    one_wins(at_once([*calls, *[end(carol, path, tag) for _ in range(CROWD // 2)]]), 412, 404)


def test_concurrent_conditional_changes_form_one_chain(carol: Person) -> None:
    """Each success has the ETag of the previous state. A replay of the chain ends in the final state."""
    print(f"seed {SEED}")
    path = f"/cars/{carol.car()}"
    first = carol.get(path)
    done: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {}  # ETag: the seen state, the change, the new ETag
    lock = threading.Lock()
    refusals = Counter[int]()

    def live(number: int) -> None:
        some = random.Random(SEED + number)
        for turn in range(TRIES):
            seen = web().get(url(carol, path), headers=carol.headers)
            wanted = {member: f"{number}.{turn}.{member}" for member in some.sample(["vin", "brand", "model"], 2)}
            steps = [{"op": "replace", "path": f"/{member}", "value": value} for member, value in wanted.items()]
            headers = carol.headers | {"If-Match": seen.headers["etag"]}
            answer = web().patch(url(carol, path), json=steps, headers=headers)
            with lock:
                if answer.status_code == 204:
                    assert seen.headers["etag"] not in done
                    done[seen.headers["etag"]] = seen.json(), wanted, answer.headers["etag"]
                else:
                    refusals[answer.status_code] += 1

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(live, range(CLIENTS)))
    assert set(refusals) <= {412}
    state, tag = first.json(), first.headers["etag"]
    for _ in range(len(done)):
        seen, wanted, after = done.pop(tag)
        assert seen == state
        state, tag = state | wanted, after
    assert not done
    last = carol.get(path)
    assert (last.json(), last.headers["etag"]) == (state, tag)


def test_concurrent_conditional_changes_of_an_assignment_form_one_chain(carol: Person) -> None:
    """Each conditional change was applied to the state that it names.

    Workers and clients without ETags run at the same time. The operations, in the order of their numbers, have the
    applied changes.
    """
    print(f"seed {SEED}")
    assignment = carol.assignment(carol.car_with_box(), carol.user())
    path = f"/assignments/{assignment}"
    first = carol.get(path).json()
    # operation: the seen state, the requested change
    asked: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {}
    lock = threading.Lock()

    def change_once(some: random.Random, value: int, *, names: bool) -> bool:
        """Try a conditional or unconditional change, and return whether it was accepted."""
        seen = web().get(url(carol, path), headers=carol.headers)
        wanted = {"lifetime": value, "renewableAfter": value - 1} if some.random() < 0.5 else {"lifetime": value}
        steps = [{"op": "replace", "path": f"/{member}", "value": value} for member, value in wanted.items()]
        headers = carol.headers | ({"If-Match": seen.headers["etag"]} if names else {})
        answer = web().patch(url(carol, path), json=steps, headers=headers)
        assert answer.status_code in ((204, 412, 503) if names else (204,)), answer.text
        if answer.status_code == 204:
            with lock:
                asked[answer.headers["operation-id"]] = seen.json() if names else None, wanted
        return answer.status_code == 204

    def live(number: int) -> None:
        some = random.Random(SEED + number)
        for turn in range(TRIES):
            change_once(some, 700_000 + number * 1000 + turn, names=some.random() < 0.7)
        # A conditional change may not have succeeded together with each of the others
        eventually(
            lambda: change_once(some, 700_000 + number * 1000 + TRIES, names=True), "a change that names the state"
        )

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(live, range(CLIENTS)))
    eventually(lambda: carol.get("/operations?$filter=state eq 'Pending'").json() == [])
    rows = carol.get("/operations?$filter=kind eq 'UpdateAssignment'&$orderby=applied").json()
    assert {row["id"] for row in rows} == set(asked)
    state = first
    for row in rows:
        seen, wanted = asked[row["id"]]
        assert seen is None or seen == state, row
        changed = state | wanted
        if "renewableAfter" not in wanted and not chosen(state):
            changed["renewableAfter"] = wanted["lifetime"] // 2
        if row["state"] == "Succeeded":
            state = changed
    assert carol.get(path).json() == state


PENDING = """
insert into operation (customer_id, kind, car_id, user_id, assignment_id, request, checksum)
select customer_id, 'UpdateAssignment', car_id, user_id, assignment_id, '{"lifetime": 700001}', 'x'
from assignment where customer_id = $1 and assignment_id = $2
"""


def test_a_conditional_change_waits_for_an_uncommitted_request(carol: Person) -> None:
    """Another request is in the order, but not committed, during the comparison."""
    assignment = carol.assignment(carol.car_with_box(), carol.user())
    path = f"/assignments/{assignment}"
    tag = carol.get(path).headers["etag"]
    with nobody_works(carol):
        carol.sql.execute("begin")
        try:
            carol.sql.execute(PENDING, carol.customer, assignment)
            answer = change(carol, path, tag, "lifetime", 800_000)()
        finally:
            carol.sql.execute("commit")
        assert answer.status_code == 204
    eventually(lambda: carol.get(path).json()["lifetime"] == 700_001)
    rows = carol.get("/operations?$filter=kind eq 'UpdateAssignment'&$orderby=applied").json()
    assert [row["state"] for row in rows] == ["Succeeded"] * 2
    assert rows[0]["id"] == answer.headers["operation-id"]


def chosen(state: dict[str, Any]) -> bool:
    """Whether a client has set `renewableAfter`. No client here sets it to the half."""
    return state["renewableAfter"] != state["lifetime"] // 2
