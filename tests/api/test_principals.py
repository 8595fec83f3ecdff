"""Principals: each endpoint allows certain kinds, and a number alone identifies no caller."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keyrack
from keyrack.api import exchange
from keyrack.api.auth_schemes import AppAuth, DeviceAuth, DriverAuth
from keyrack.api.endpoint import Endpoint
from keyrack.api.permissions import PROGRAMS, Free
from keyrack.api.principals import FOR_PEOPLE, AppUser, ClientCaller, Device, Driver, ManagerCaller
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.http.routes import ALL
from tests.auth.test_clients import Program
from tests.auth.test_roles import asked
from tests.http.test_contract import over
from tests.support.people import Person

SOURCE = Path(keyrack.__file__).parent
OF_PEOPLE = [row for row in ALL if row.principals == (ManagerCaller,)]
ABOUT_PEOPLE = [row for row in OF_PEOPLE if row.auth.permission is Free.PERSON]


def functions(endpoint: Endpoint) -> Iterator[Callable[..., Any]]:
    """Yield the functions of an endpoint that get its request."""
    if isinstance(endpoint.handler, ReadEndpoint):
        yield endpoint.handler.tenant
    else:
        yield inspect.getclosurevars(endpoint.handler).nonlocals.get("function", endpoint.handler)
    if endpoint.prepare is not None:
        yield endpoint.prepare
    if endpoint.concurrency.serialized == "always":
        yield endpoint.concurrency.precheck


def reads_manager(function: Callable[..., Any], seen: set[Any]) -> bool:
    """Whether the function reads `request.manager`, directly or through functions of its module or `exchange`."""
    if function in seen or not inspect.isfunction(function):
        return False
    seen.add(function)
    names = [*function.__code__.co_names, *function.__code__.co_freevars]
    called = [function.__globals__[name] for name in names if inspect.isfunction(function.__globals__.get(name))]
    followed = [other for other in called if other.__module__ in (function.__module__, exchange.__name__)]
    return "manager" in names or any(reads_manager(other, seen) for other in followed)


READING = [row for row in ALL if any(reads_manager(function, set()) for function in functions(row))]


def test_rows_that_read_the_manager_are_for_managers_alone() -> None:
    assert {row.path for row in READING} >= {"/me", "/me/passkeys", "/me/totp", "/sessions", "/managers"}
    assert [row.path for row in READING if row not in OF_PEOPLE] == []
    assert [row.path for row in ABOUT_PEOPLE if row not in READING] == []


@over(ABOUT_PEOPLE)
def test_machine_clients_get_403_for_endpoints_about_a_person(
    alice: Person, machine: Person, endpoint: Endpoint
) -> None:
    answer = asked(machine, endpoint)
    assert (answer.status_code, answer.json()["code"]) == (403, FOR_PEOPLE.code)
    assert asked(alice, endpoint).status_code != 403 or endpoint.method != "GET"


@pytest.fixture(scope="module")
def machine(alice: Person) -> Person:
    """A client of alice's customer with every scope."""
    return replace(alice, headers=alice.headers | Program(alice, *map(str, PROGRAMS)).headers())


def test_no_endpoint_reads_the_number_of_a_caller() -> None:
    """A manager's number comes from `request.manager` only, which rejects every other principal."""
    for file in SOURCE.glob("*/endpoints/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "id":
                assert "caller" not in ast.unparse(node.value), f"{file.name}:{node.lineno}"


def test_a_row_names_its_principals() -> None:
    kinds = {ManagerCaller, ClientCaller, Device, AppUser, Driver}
    for row in ALL:
        if row.auth.permission is Free.PUBLIC:
            assert set(row.principals) == kinds, row.path
            continue
        assert set(row.principals) < kinds, row.path
        assert (Device in row.principals) == (isinstance(row.auth, DeviceAuth)), row.path
        assert (AppUser in row.principals) == isinstance(row.auth, AppAuth), row.path
        assert (Driver in row.principals) == isinstance(row.auth, DriverAuth), row.path
        assert (ManagerCaller in row.principals) == row.auth.has_token, row.path
