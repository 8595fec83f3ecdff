"""A test for all cases runs each, and names those that fail."""

from __future__ import annotations

import inspect

import pytest

from tests.support.cases import for_all


def test_a_failure_names_every_case_that_fails_and_no_other() -> None:
    seen: list[tuple[int, str]] = []

    @for_all("number", [1, 2, 3, 4], label=lambda number: f"<{number}>")
    def check(number: int, fixture: str) -> None:
        seen.append((number, fixture))
        if number == 3:
            pytest.fail("three")
        assert number != 2

    assert list(inspect.signature(check).parameters) == ["fixture"]
    with pytest.raises(BaseExceptionGroup, match=r"^2 of 4 cases failed: number: <2>; number: <3>$") as failure:
        check(fixture="shared")
    assert [str(each).partition("\n")[0] for each in failure.value.exceptions][1:] == ["three"]
    assert seen == [(number, "shared") for number in (1, 2, 3, 4)]


def test_cases_that_pass_leave_no_failure() -> None:
    @for_all("number", [1, 2])
    def check(number: int) -> None:
        assert number

    check()


def test_a_test_without_cases_is_an_error() -> None:
    with pytest.raises(AssertionError, match="without cases"):
        for_all("number", [])
