"""A customer moves to another cell with everything that belongs to it."""

from __future__ import annotations

from tests.ops.cells.conftest import TwoCells
from tests.ops.cells.moves import finish, move, signed_in


def test_a_moved_customer_works_in_the_target_and_is_unknown_in_the_source(cells: TwoCells) -> None:
    alice = cells.main.town.person("alice")
    car, user = alice.car_with_box(), alice.user()
    assignment = alice.assignment(car, user)
    moved = move(cells.main, cells.east, alice.customer)
    assert moved.rows > 0
    assert alice.get("/cars").status_code in (401, 404)
    there = signed_in(alice, cells.east)
    assert [row["id"] for row in there.get("/cars").json()] == [car]
    assert [row["id"] for row in there.get(f"/cars/{car}/assignments").json()] == [assignment]
    assert there.car("Another") > car
    assert there.assignment(car, user, "2026-02-01T08:00:00Z") > assignment
    finish(cells.main, cells.east, alice.customer)
    assert cells.main.sql.value("select count(*) from car where customer_id = $1", alice.customer) == 0
    assert there.get("/cars").status_code == 200
