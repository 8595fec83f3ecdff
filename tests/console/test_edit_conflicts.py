"""Two people change the same object: the slower one gets a message, and no change is lost silently."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from tests.support.people import Person
from tests.support.servers import eventually

TAG = re.compile(r'name="tag" value="([^"]+)"')


@pytest.fixture
def things(carol: Person) -> dict[str, str]:
    """Kind of thing -> its address, in the API and in the console alike."""
    webhook = carol.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    assignment = carol.assignment(carol.car_with_box(), carol.user(), end="2031-01-01T08:00:00Z")
    return {
        "car": f"/cars/{carol.car('Pool car')}", "group": f"/groups/{carol.group('Pool')}",
        "webhook": f"/webhooks/{webhook}", "assignment": f"/assignments/{assignment}",
    }  # fmt: skip


# Object, address of its form, address of the submission, values, and the field that another person changes meanwhile
FORMS = [
    ("car", "?edit=brand", "/facts/brand", {"value": "Opel"}, "name", "Bus"),
    ("car", "/delete", "/delete", {}, "name", "Bus"),
    ("group", "?rename", "", {"name": "Mine"}, "name", "Theirs"),
    ("webhook", "/change/url", "/change/url", {"url": "http://127.0.0.1:9/mine"}, "url", "http://127.0.0.1:9/theirs"),
    ("webhook", "/change/kinds", "/change/kinds", {"assignment.created": "on"}, "url", "http://127.0.0.1:9/theirs"),
    ("webhook", "/change/secret", "/change/secret", {"secret": "mine"}, "url", "http://127.0.0.1:9/theirs"),
    ("webhook", "/delete", "/delete", {}, "url", "http://127.0.0.1:9/theirs"),
    ("assignment", "/end", "/end", {}, "lifetime", 700_000),
]


@pytest.mark.parametrize(
    ("thing", "form", "sent_to", "fields", "member", "theirs"), FORMS, ids=[f"{row[0]}{row[1]}" for row in FORMS]
)
def test_who_is_slower_is_told(
    carol: Person, things: dict[str, str], thing: str, form: str, sent_to: str, fields: dict[str, str],
    member: str, theirs: object,
) -> None:  # fmt: skip
    there = things[thing]
    with carol.browser() as browser:
        console = f"/{carol.customer}{there}"
        tag = tag_of(browser, console + form)
        changed = carol.patch(there, [{"op": "replace", "path": f"/{member}", "value": theirs}])
        assert changed.status_code == 204, changed.text
        eventually(lambda: carol.get(there).json()[member] == theirs, "the change")
        answer = browser.post(console + sent_to, data=fields | {"tag": tag})
        assert answer.status_code == 412
        assert re.search("Another person|in the meantime", answer.text)
        assert tag_of(answer) not in (tag, "")  # sending it again replaces the value
    now = carol.get(there)
    assert (now.status_code, now.json()[member]) == (200, theirs)


def tag_of(page: httpx.Response | httpx.Client, address: str = "") -> str:
    """The state of the thing from which the form was drawn."""
    answer = page.get(address) if isinstance(page, httpx.Client) else page
    found = TAG.search(answer.text)
    assert found, answer.text
    return unescape(found[1])
