"""The two kinds of pipeline steps, and their composition into one function per row.

The rows of endpoints do not change while a process runs. So `compose` checks a row once, at startup, and omits the
steps that it does not need. No condition is checked again during a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Response

C = TypeVar("C")  # the call that a step receives
D = TypeVar("D", contravariant=True)
Next = Callable[[C], Awaitable[Response]]
# A plain function returns None. The runner awaits any other result, so that a cheap check needs no coroutine
CheckFunction = Callable[[C], Awaitable[None] | None]
When = Callable[[Endpoint[Any]], bool]


def always(_row: Endpoint[Any]) -> bool:
    """The condition of a step that every row needs."""
    return True


class WrapperFunction(Protocol[D]):
    """The function of a `WrapperStep`."""

    __name__: str

    def __call__(self, call: D, call_next: Next[Any]) -> Awaitable[Response]: ...


@dataclass(frozen=True, slots=True)
class CheckStep(Generic[C]):
    """A step that checks the call or fills it in. It raises `Refusal` to end the request."""

    run: CheckFunction[C]
    when: When = always  # whether a row needs it

    @property
    def name(self) -> str:
        return self.run.__name__


@dataclass(frozen=True, slots=True)
class WrapperStep(Generic[C]):
    """A step around all later steps. `run` receives the call and `call_next`, which runs them."""

    run: WrapperFunction[C]
    when: When = always  # whether a row needs it

    @property
    def name(self) -> str:
        return self.run.__name__


Steps = Sequence[CheckStep[C] | WrapperStep[C]]


def select_steps(steps: Steps[C], row: Endpoint[Any]) -> list[CheckStep[C] | WrapperStep[C]]:
    """The steps that the row needs, in their order."""
    return [step for step in steps if step.when(row)]


def compose(steps: Steps[C], row: Endpoint[Any], handler: Next[C]) -> Next[C]:
    """One function that runs the row's steps and then the handler.

    Checks between two wrappers run in one loop. Only a wrapper costs a separate call.
    """
    call_next = handler
    checks: list[CheckFunction[C]] = []
    for step in reversed(select_steps(steps, row)):
        if isinstance(step, CheckStep):
            checks.insert(0, step.run)
        else:
            call_next = partial(step.run, call_next=_with_checks(checks, call_next))
            checks = []
    return _with_checks(checks, call_next)


def _with_checks(checks: Iterable[CheckFunction[C]], call_next: Next[C]) -> Next[C]:
    """The checks, then `call_next`."""
    flat = tuple(checks)
    if not flat:
        return call_next

    async def run(call: C) -> Response:
        for check in flat:
            if (waiting := check(call)) is not None:
                await waiting
        return await call_next(call)

    return run
