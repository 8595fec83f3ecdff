"""In charge of what is traced: requests, statements, operations and deliveries; and of how many requests are.

While traces are off, `TRACES.on` is all that anybody looks at. A span is told when it has ended. Its id is known
before, so that what lies below it may be told first, by another process, or when it never ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from uuid import UUID

import asyncpg

from keyrack.core.tracing.context import TraceContext, chance, here, is_sampled, new_span
from keyrack.core.tracing.statement_names import statement_name

Kind = Literal["server", "client", "consumer"]
STATEMENTS = 100  # that one request or operation tells of, at most: of the others it says how many there were
SECOND = 1_000_000_000  # of the times here, which are nanoseconds since 1970


@dataclass(slots=True)
class SpanData:
    """What is told of one: names and values of OpenTelemetry's semantic conventions, or ours, which begin `keyrack.`"""

    name: str
    kind: Kind
    place: TraceContext
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    failed: str = ""  # the kind of the error, where it failed


class OperationSpan(Protocol):
    """A pending operation, as its row tells it."""

    def __getitem__(self, name: str, /) -> Any: ...


class Traces:
    """What this process traces: nothing, unless it was told to."""

    def __init__(self) -> None:
        self.on = False
        self._share = 0.0
        self._trusts = False
        self._customers = False
        self._export: Callable[[SpanData], None] = _nobody

    def begin(self, export: Callable[[SpanData], None], *, share: float, trusts: bool, customers: bool) -> None:
        """Trace from now on: `share` of the requests, and where we `trust` callers those that they trace; with the ids
        of `customers`, or without."""
        self._export, self._share, self._trusts, self._customers = export, share, trusts, customers
        self.on = True

    def end(self) -> None:
        """Trace no more."""
        self.on = False
        self._export = _nobody

    def request(self, caller: TraceContext | None, trace: str) -> TraceContext:
        """The place of a request: in the trace of its `caller`, if it has one, else in this one. It counts as worked on
        from now on, within the caller's context.

        Who may call may not say how much is traced: chance does, and not the trace's id, which is the caller's too.
        """
        sampled = caller.sampled if caller is not None and self._trusts else chance.random() < self._share
        place = TraceContext(trace if caller is None else caller.trace, new_span(), sampled, caller)
        if caller is not None:
            place.state = caller.state
            if not sampled:
                place.span = caller.span  # nobody would find the one between them
        here.set(place)
        return place

    def answered(
        self, place: TraceContext, method: str, route: str, status: str, begun: int, id: str, customer: int, failed: str
    ) -> None:
        """Tell of a request that has come to its end; `route` is "" where it had none."""
        attributes: dict[str, Any] = {
            "http.request.method": method, "http.response.status_code": int(status), "keyrack.request_id": id,
        }  # fmt: skip
        if route:
            attributes["http.route"] = route
        if place.statements > STATEMENTS:
            attributes["keyrack.statements"] = place.statements
        name = f"{method} {route}".rstrip()
        self._emit(SpanData(name, "server", place, begun, time.time_ns(), attributes, failed), customer)

    def statement(self, sql: str, seconds: float, error: BaseException | None) -> None:
        """Tell of a statement that has ended, if what it belongs to is traced."""
        above = here.get()
        if above is None or not above.sampled:
            return
        above.statements += 1
        if above.statements > STATEMENTS:
            return
        ended = time.time_ns()
        operation, table = statement_name(sql)
        summary = f"{operation} {table}".rstrip()
        attributes = {"db.system.name": "postgresql", "db.operation.name": operation, "db.query.summary": summary}
        if table:
            attributes["db.collection.name"] = table
        failed = ""
        if error is not None:
            failed = (error.sqlstate if isinstance(error, asyncpg.PostgresError) else None) or type(error).__name__
        place = TraceContext(above.trace, new_span(), True, above)
        self._export(SpanData(summary, "client", place, ended - int(seconds * SECOND), ended, attributes, failed))

    @contextmanager
    def working(self) -> Generator[None]:
        """Within the block a worker may be `at` operations; afterwards it is not."""
        if not self.on:
            yield
            return
        token = here.set(None)
        try:
            yield
        finally:
            here.reset(token)

    def at(self, works: Iterable[OperationSpan]) -> None:
        """Take these operations for what is worked on now, unless a request does them: statements for all of them
        belong to the first one that is traced."""
        if here.get() is None:
            here.set(next((place for work in works if (place := _place(work)) is not None and place.sampled), None))

    def applied(self, works: Iterable[OperationSpan], failed: frozenset[UUID], begun: int) -> None:
        """Tell of operations that were applied together, or came to nothing."""
        now, at = time.time_ns(), here.get()
        for work in works:
            place = _place(work)
            if place is None or not place.sampled:
                continue
            if at is not None and at.sampled and at.span != place.span:
                place.links = (at,)
            ended_badly = work["operation_id"] in failed
            attributes: dict[str, Any] = {
                "keyrack.operation.kind": work["kind"], "keyrack.operation.cause": work["cause"],
                "keyrack.operation.state": "Failed" if ended_badly else "Succeeded",
                "keyrack.operation.waited": round(work["waited"], 6),
            }  # fmt: skip
            name = f"operation {work['kind']}"
            said = "refused" if ended_badly else ""
            self._emit(SpanData(name, "consumer", place, begun, now, attributes, said), work["customer_id"])

    def delivery(self, traceparent: str | None, message: str) -> TraceContext | None:
        """The place of an attempt to deliver the outcome `message`, which is the id of its operation."""
        above = is_sampled(traceparent)
        if above is None:
            return None
        operation = above.of_operation(UUID(message))
        return TraceContext(above.trace, new_span(), True, operation) if above.sampled else operation

    def delivered(self, place: TraceContext, host: str, port: int, status: int | None, begun: int, failed: str) -> None:
        """Tell of an attempt to deliver that has ended. Its address is not told, a part of which may be secret."""
        if not place.sampled:
            return
        attributes: dict[str, Any] = {"http.request.method": "POST", "server.address": host, "server.port": port}
        if status is not None:
            attributes["http.response.status_code"] = status
        self._export(SpanData("POST", "client", place, begun, time.time_ns(), attributes, failed))

    def _emit(self, span: SpanData, customer: int) -> None:
        if self._customers and customer:
            span.attributes = {**span.attributes, "keyrack.customer": customer}
        self._export(span)


def _place(work: OperationSpan) -> TraceContext | None:
    above = is_sampled(work["traceparent"])
    return None if above is None else above.of_operation(work["operation_id"])


def _nobody(_span: SpanData) -> None: ...


TRACES = Traces()
