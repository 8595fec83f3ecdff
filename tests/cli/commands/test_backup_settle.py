"""`keyrack backup settle`: after a restore, at the address of the restored server."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from keyrack.core.cell_ids import IDS_PER_CELL
from keyrack.core.settings import Settings
from keyrack.ops.backups.post_restore import JUMP
from tests.cli.commands.test_cells import CellsOperator, TwoCells, away, faults, two
from tests.cli.test_operator_commands import Operator
from tests.db.test_migrations import upgrade
from tests.support.cells import second_cell, with_cells
from tests.support.database_proxy import DatabaseProxy
from tests.support.drivers import signed_in_driver
from tests.support.people import Town
from tests.support.servers import RunningServer, Sql, eventually, fresh_database, migrated_database

__all__ = ["two"]

pytestmark = pytest.mark.cluster


def test_a_restored_cell_is_settled_where_keyrack_does_not_reach_it(two: TwoCells) -> None:
    """The configured address has no server. The restored one has another address."""
    (north,) = two.operator.cells
    operator = CellsOperator(two.operator.dsn, [away(north)])
    settle = ("backup", "settle", "--cell", "north")
    said = operator.refused(*settle)
    assert "Connection refused" in said and "that `url` of the cell north in [[cells]] is its address" in said
    said = operator.refused(*settle, "--url", away(north)["url"])
    assert "Connection refused" in said and "that --url is its address" in said
    assert "says that it is cell 0, main, but the settings say 1" in operator.refused(*settle, "--url", operator.dsn)
    assert "not an address of the form" in operator.refused(*settle, "--url", "north.example.org", status=2)
    customer = two.north.value("select max(customer_id) from customer")
    unused = "select last_value from pg_sequences where sequencename = 'person_user_id_seq'"
    assert two.north.value(unused) is None
    status, output, errors = operator.quick(*settle, "--url", north["url"], "--json")
    assert (status, errors) == (0, "") and json.loads(output)["notAdvanced"] == []
    assert two.operator.value("customer", "add", "After the restore", "--cell", "north")["id"] > customer + JUMP
    # The sequence of a cell without persons stays in the range of the cell
    assert IDS_PER_CELL + JUMP < two.north.value(unused) < 2 * IDS_PER_CELL
    assert faults(two.operator) == []


def test_no_id_is_given_twice_while_keyrack_keeps_running(database_server: str, settings: Settings) -> None:
    """Keyrack returns to the restored cell by itself, after it is settled."""
    with migrated_database(database_server) as main, second_cell(database_server) as cell:
        proxy, sql = DatabaseProxy(cell.url), Sql(cell.url)
        north = cell.model_copy(update={"url": proxy.dsn})
        with RunningServer(with_cells(settings, north), main) as server:
            alice, bob = Town(Sql(main), server).person("alice"), Town(sql, server).person("bob")
            given = [bob.car(name) for name in ("kept", "lost")]
            proxy.cut()
            # The restored database no longer has the second car
            sql.execute("delete from car where car_id = $1", given[1])
            sql.execute("select setval('car_car_id_seq', $1)", given[0])
            operator = CellsOperator(main, [north.model_dump(exclude_none=True)])
            assert bob.put("/cars", {"name": "refused"}).status_code == 503
            assert operator.value("backup", "settle", "--cell", "north", "--url", cell.url)["notAdvanced"] == []
            assert alice.car() > 0
            assert bob.put("/cars", {"name": "refused"}).status_code == 503
            proxy.restore()
            form = {"username": bob.username, "password": bob.password, "grant_type": "password"}

            def token() -> httpx.Response | None:
                response = bob.client.post("/oauth2/token", data=form, headers={"vendor-API-Key": bob.api_key})
                return response if response.status_code == 200 else None

            access = eventually(token, "the return of the cell").json()["access_token"]
            bob.headers["Authorization"] = f"Bearer {access}"
            assert bob.car("after the restore") > given[1] + JUMP - 2
            for person in (alice, bob):
                person.client.close()
                person.sql.close()
        proxy.close()


def test_a_restore_to_a_time_before_an_upgrade_is_settled(two: TwoCells, database_server: str) -> None:
    """An older schema is settled before its migration, and served after it."""
    with fresh_database(database_server) as restored:
        asyncio.run(upgrade(restored, "0081"))
        sql = Sql(restored)
        sql.execute("update cell set number = 1, name = 'north'")
        sql.execute("insert into customer (name) values ('Old')")
        two.operator.value("backup", "settle", "--cell", "north", "--url", restored)
        assert sql.value("select nextval('customer_customer_id_seq')") == JUMP + 2
        assert sql.value("select version_num from alembic_version") == "0081"
        sql.close()
    with fresh_database(database_server) as empty:
        assert "is still empty" in two.operator.refused("backup", "settle", "--cell", "north", "--url", empty)


def test_everyone_of_the_database_signs_in_again(database_server: str, settings: Settings) -> None:
    with migrated_database(database_server) as dsn, RunningServer(settings, dsn) as server:
        sql, operator = Sql(dsn), Operator(dsn)
        alice = Town(sql, server).person("alice")
        driver = signed_in_driver(alice)
        made = operator.value("client", "add", "Program", "--customer", alice.customer, "--scope", "cars:read")
        form = {
            "grant_type": "client_credentials", "client_id": made["clientId"], "client_secret": made["clientSecret"],
        }  # fmt: skip

        def call() -> int:
            return alice.get("/cars", headers={"Authorization": f"Bearer {token}"}).status_code

        token = alice.client.post("/oauth2/token", data=form, headers=alice.headers).json()["access_token"]
        assert (alice.get("/cars").status_code, call(), driver.is_in) == (200, 200, True)
        status, text, errors = operator.quick("backup", "settle")
        assert status == 0 and "Managers, drivers and machine clients must sign in again." in text
        assert errors.startswith("keyrack: The restored database is in use already: keyrack")
        eventually(lambda: (alice.get("/cars").status_code, call()) == (401, 401), "the end of cached access")
        assert not driver.is_in
        token = alice.client.post("/oauth2/token", data=form, headers=alice.headers).json()["access_token"]
        assert call() == 200  # by the same secret
        assert driver.sign_in(driver.address).status_code in (200, 201, 204)
        (secret,) = next(row for row in operator.value("client", "list") if row["id"] == made["id"])["secrets"]
        assert secret > JUMP
        assert operator.value("audit", "verify", "--installation")["valid"]
        alice.client.close()
        driver.http.close()
        sql.close()
