"""Hidden assignments: a group-limited caller sees when a car of its groups is assigned, but not to whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from keyrack.api.permissions import Role
from tests.auth.group_scope import limited, put
from tests.support.people import Person, Town, done
from tests.support.servers import eventually

PATH = "/hidden-assignments"
START = "2031-01-01T08:00:00Z"


@dataclass
class Site:
    """`car` and `user` are in the group of Gina; `stranger` and `far` are not."""

    whole: Person
    gina: Person
    group: int
    car: int
    user: int
    stranger: int
    far: int


@pytest.fixture(scope="module")
def site(town: Town) -> Iterator[Site]:
    whole = town.person("site")
    group = whole.group("Site")
    car, far, user, stranger = whole.car_with_box("Near"), whole.car_with_box("Far"), whole.user(), whole.user()
    put(whole, group, "carId", car)
    put(whole, group, "userId", user)
    gina = limited(town, whole, "gina", [group], Role.DISPATCHER)
    yield Site(whole, gina, group, car, user, stranger, far)
    for person in (gina, whole):
        person.client.close()


def end(site: Site, *assignments: int) -> None:
    for id in assignments:
        done(site.whole.delete(f"/assignments/{id}"))
        eventually(lambda id=id: site.whole.get(f"/assignments/{id}").status_code == 404, "the end")


def test_only_the_times_of_a_visible_car_are_shown(site: Site, bob: Person) -> None:
    whole, gina = site.whole, site.gina
    hidden = whole.assignment(site.car, site.stranger, START, end="2031-01-02T08:00:00Z")
    others = (whole.assignment(site.car, site.user, START), whole.assignment(site.far, site.stranger, START))
    rows = [{"carId": site.car, "start": START, "end": "2031-01-02T08:00:00Z"}]
    assert gina.get(PATH).json() == rows
    assert gina.get(f"{PATH}?$expand=car($select=name)").json() == [rows[0] | {"car": {"name": "Near"}}]
    assert gina.get(f"{PATH}?$filter=start gt 2031-01-02T00:00:00Z").json() == []
    for name in ("id", "userId", "assignmentId", "user"):
        for option in (f"$select={name}", f"$orderby={name}", f"$filter={name} eq null", f"$expand={name}"):
            assert gina.get(f"{PATH}?{option}").status_code == 400, option
    assert whole.get(PATH).json() == bob.get(PATH).json() == []
    end(site, hidden, *others)
    assert gina.get(PATH).json() == []


def test_the_longest_of_assignments_with_the_same_start_is_listed(site: Site) -> None:
    """A row has no id, so its car and start identify it. The number of such assignments is not shown."""
    ends = ("2031-01-02T08:00:00Z", None, "2031-01-03T08:00:00Z")
    made = [site.whole.assignment(site.car, site.stranger, START, end=last) for last in ends]
    later = site.whole.assignment(site.car, site.stranger, "2031-02-01T08:00:00Z")
    assert [(row["start"], row["end"]) for row in site.gina.get(PATH).json()] == [
        (START, None),
        ("2031-02-01T08:00:00Z", None),
    ]
    pages = [site.gina.get(f"{PATH}?$top=1&$skip={skip}").json()[0]["start"] for skip in range(2)]
    assert pages == [START, "2031-02-01T08:00:00Z"]
    assert site.gina.get(f"{PATH}?$apply=aggregate($count as n)").json() == [{"n": 2}]
    end(site, *made, later)


def test_a_filter_finds_cars_without_hidden_assignments(site: Site) -> None:
    hidden = site.whole.assignment(site.car, site.stranger, START)
    free = "/positions?$select=name&$filter=not hiddenAssignments/any()&$orderby=name"
    assert site.gina.get(free).json() == []
    assert site.gina.get("/positions?$select=name&$expand=hiddenAssignments($select=start)").json() == [
        {"name": "Near", "hiddenAssignments": [{"start": START}]}
    ]
    assert [row["name"] for row in site.whole.get(free).json()] == ["Far", "Near"]
    end(site, hidden)
    assert site.gina.get(free).json() == [{"name": "Near"}]


def test_hidden_assignments_follow_the_groups_of_car_and_user(site: Site) -> None:
    whole, gina = site.whole, site.gina
    hidden = whole.assignment(site.car, site.stranger, START)
    put(whole, site.group, "userId", site.stranger)
    assert gina.get(PATH).json() == [] and [row["id"] for row in gina.get("/assignments").json()] == [hidden]
    done(whole.delete(f"/groups/{site.group}/users/{site.stranger}"))
    assert len(gina.get(PATH).json()) == 1 and gina.get("/assignments").json() == []
    done(whole.delete(f"/groups/{site.group}/cars/{site.car}"))
    assert gina.get(PATH).json() == []
    put(whole, site.group, "carId", site.car)
    end(site, hidden)


def test_a_box_is_visible_with_its_car(site: Site) -> None:
    """A unit does not become visible with its car. Neither does a box in another car or in none."""
    whole, gina = site.whole, site.gina
    (box,) = [row["id"] for row in whole.get(f"/cars/{site.car}/products").json()]
    (far_box,) = [row["id"] for row in whole.get(f"/cars/{site.far}/products").json()]
    unit = whole.box_in(site.car, "IQ")
    loose = whole.product()
    assert [row["id"] for row in gina.get("/products").json()] == [box]
    assert [row["id"] for row in gina.get(f"/cars/{site.car}/products").json()] == [box]
    assert gina.get(f"/cars/{site.car}?$expand=products($select=id)").json()["products"] == [{"id": box}]
    assert [row["id"] for row in gina.get("/products?$top=5&$orderby=serialNumber desc").json()] == [box]
    statuses = {id: gina.get(f"/products/{id}").status_code for id in (box, far_box, unit, loose)}
    assert statuses == {box: 200, far_box: 404, unit: 404, loose: 404}
    put(whole, site.group, "productId", far_box)
    assert [row["id"] for row in gina.get("/products").json()] == sorted([box, far_box])
    put(whole, site.group, "productId", box)  # in the group itself, and visible with its car
    assert [row["id"] for row in gina.get("/products?$orderby=id").json()] == sorted([box, far_box])
    done(whole.delete(f"/groups/{site.group}/products/{far_box}"))
    done(whole.delete(f"/groups/{site.group}/products/{box}"))
    done(whole.delete(f"/groups/{site.group}/cars/{site.car}"))
    assert gina.get("/products").json() == [] and gina.get(f"/products/{box}").status_code == 404
    put(whole, site.group, "carId", site.car)
