"""A restore takes back what the log of changes had told: it goes on in another epoch, and what is left is proven."""

from __future__ import annotations

import contextlib
from typing import Any

import httpx
import pytest

from keyrack.changelog.feed import EPOCH, NEWEST
from keyrack.changelog.transparency.epochs import JUMP
from tests.changelog.feed_readers import Listener, Poller, Reader, reading_beside
from tests.ops.backups.instance import Caller, House, written
from tests.support.people import web
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

PROBLEM = {"Accept": "application/problem+json"}


def asked(url: str, mo: Caller, **query: Any) -> httpx.Response:
    return web().get(f"{url}/changes", params=query, headers=mo.headers | PROBLEM)


def told(url: str, mo: Caller, car: int) -> httpx.Response:
    """The whole log, as soon as it tells of that car."""

    def there() -> httpx.Response | None:
        answer = asked(url, mo, **{"$top": 1000})
        found = [one for one in answer.json() if (one["kind"], one["resourceId"]) == ("car.created", str(car))]
        return answer if found else None

    return eventually(there, "the change")


def test_who_reads_on_after_a_restore_is_told(house: House) -> None:
    """Whoever stopped anywhere, and those who wait and listen all the time: they begin anew, and miss nothing from then
    on."""
    at = list[Caller]()
    readers: list[Reader] = [kind(lambda: at[-1].url, lambda: at[-1].headers) for kind in (Poller, Listener)]
    with contextlib.ExitStack() as stack:
        _restored(house, at, readers, stack)


def _restored(house: House, at: list[Caller], readers: list[Reader], stack: contextlib.ExitStack) -> None:
    with house.serving() as url:
        mo = Caller(url, house)
        at.append(mo)
        stack.enter_context(reading_beside(*readers))
        kept = told(url, mo, mo.car("kept"))
        moment = house.now()
        lost = told(url, mo, mo.car("lost"))
        newest = int(lost.headers[NEWEST])
        eventually(lambda: all(reader.place == newest for reader in readers), "what is lost then")
        assert lost.headers[EPOCH] == kept.headers[EPOCH]
        house.json("backup", "verify")
    house.lose()
    house.json("backup", "restore", "--to", written(moment))
    with house.serving() as url:
        mo = Caller(url, house)
        at.append(mo)
        anew = told(url, mo, mo.car("anew"))
        eventually(lambda: all(reader.place >= int(anew.headers[NEWEST]) for reader in readers), "what is new")
        for reader in readers:
            assert reader.wrong == [] and [one["epoch"] for one in reader.gone] == [anew.headers[EPOCH]]
        epoch, end = anew.headers[EPOCH], int(kept.headers[NEWEST])
        assert epoch != kept.headers[EPOCH]
        # whoever stopped before the moment, after it, with the epoch or without
        for number in (end - 1, end, int(lost.headers[NEWEST])):
            for named in ({"epoch": kept.headers[EPOCH]}, {}):
                gone = asked(url, mo, **{"$filter": f"id gt {number}", **named})
                assert gone.status_code == 410, gone.text
                there_is = gone.json()
                assert (there_is["epoch"], there_is["oldest"]) == (epoch, end + JUMP + 1)
        behind = asked(url, mo, **{"$filter": f"id gt {end + JUMP}", "epoch": epoch}).json()
        assert (behind[0]["id"], behind[0]["kind"]) == (end + JUMP + 1, "log.begun")
        assert behind[0]["actor"]["type"] == "operator"
        assert (behind[0]["before"]["epoch"], behind[0]["before"]["newest"]) == (kept.headers[EPOCH], end)
        assert [one["kind"] for one in behind].count("car.created") == 1
        # what is left of the epoch before is listed, and verifies; so does the installation's log
        assert [one["id"] for one in anew.json()][:end] == [one["id"] for one in kept.json()]
        newest = house.json("audit", "verify", "--customer", 1)
        assert (newest["epoch"], newest["behind"]) == (epoch, end + JUMP)
        older = house.json("audit", "verify", "--customer", 1, "--epoch", kept.headers[EPOCH])
        assert (older["behind"], older["last"]) == (0, end)
        assert house.json("audit", "verify", "--installation")["valid"]
    # a drill looks at a copy
    before = house.json("audit", "verify", "--customer", 1)["otherEpochs"]
    house.json("backup", "drill")
    assert house.json("audit", "verify", "--customer", 1)["otherEpochs"] == before
