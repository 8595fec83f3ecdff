"""One test for all rows of a table.

A separate test for each row often costs more than its checks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
Test = Callable[..., None]


def for_all(parameter: str, cases: Iterable[T], label: Callable[[T], str] = str) -> Callable[[Test], Test]:
    """Run the test for all cases, each as its `parameter`. The failure names every case that fails.

    The cases share the fixtures of the test. Cases with fixtures of their own need `pytest.mark.parametrize`.
    """
    every = list(cases)
    assert every, "a test without cases cannot fail"

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for case in every:
                try:
                    test(**fixtures, **{parameter: case})
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"{parameter}: {label(case)}")
                    failures.append(failure)
            if failures:
                labels = [note for failure in failures for note in failure.__notes__[-1:]]
                raise BaseExceptionGroup(f"{len(failures)} of {len(every)} cases failed: {'; '.join(labels)}", failures)

        signature = inspect.signature(test)
        others = [given for name, given in signature.parameters.items() if name != parameter]
        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined] - pytest reads it
        return run

    return decorated
