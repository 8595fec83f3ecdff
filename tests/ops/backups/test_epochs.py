"""A restore reverts published changes: the change log continues in a new epoch with valid proofs."""

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
    """The whole log, once it has the change of that car."""

    def there() -> httpx.Response | None:
        answer = asked(url, mo, **{"$top": 1000})
        found = [one for one in answer.json() if (one["kind"], one["resourceId"]) == ("car.created", str(car))]
        return answer if found else None

    return eventually(there, "the change")


def test_readers_learn_of_a_restore(house: House) -> None:
    """Every reader starts over and misses nothing from then on.

    This covers readers that stopped at any point, and readers that poll or stream throughout.
    """
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
        # readers that stopped before or after the restored time, with and without the epoch
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
        # the rest of the previous epoch is listed and verifies, and so does the installation's log
        assert [one["id"] for one in anew.json()][:end] == [one["id"] for one in kept.json()]
        newest = house.json("audit", "verify", "--customer", 1)
        assert (newest["epoch"], newest["behind"]) == (epoch, end + JUMP)
        older = house.json("audit", "verify", "--customer", 1, "--epoch", kept.headers[EPOCH])
        assert (older["behind"], older["last"]) == (0, end)
        assert house.json("audit", "verify", "--installation")["valid"]
    # a drill uses a copy
    before = house.json("audit", "verify", "--customer", 1)["otherEpochs"]
    house.json("backup", "drill")
    assert house.json("audit", "verify", "--customer", 1)["otherEpochs"] == before
