"""Spans of requests, statements, operations and deliveries, and the sampling of requests.

While tracing is off, callers only check `TRACES.on`. A span is exported when it has ended. Its id is known before, so
its children can be exported first, by another process, or if it never ends.
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
STATEMENTS = 100  # maximum number of statement spans per request or operation; further ones are counted
SECOND = 1_000_000_000  # in nanoseconds, the unit of all times here


@dataclass(slots=True)
class SpanData:
    """A span with attributes of OpenTelemetry's semantic conventions or with the prefix `keyrack.`."""

    name: str
    kind: Kind
    place: TraceContext
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    failed: str = ""  # the type of the error, if it failed


class OperationSpan(Protocol):
    """The row of a pending operation."""

    def __getitem__(self, name: str, /) -> Any: ...


class Traces:
    """The tracing state of this process. It is off until `begin`."""

    def __init__(self) -> None:
        self.on = False
        self._share = 0.0
        self._trusts = False
        self._customers = False
        self._export: Callable[[SpanData], None] = _nobody

    def begin(self, export: Callable[[SpanData], None], *, share: float, trusts: bool, customers: bool) -> None:
        """Start tracing.

        `share` is the fraction of sampled requests. With `trusts`, the sampled flag of callers decides instead. With
        `customers`, spans have the customer's id.
        """
        self._export, self._share, self._trusts, self._customers = export, share, trusts, customers
        self.on = True

    def end(self) -> None:
        """Stop tracing."""
        self.on = False
        self._export = _nobody

    def request(self, caller: TraceContext | None, trace: str) -> TraceContext:
        """The trace context of a request: in the trace of its `caller`, otherwise in `trace`.

        It becomes the context of the running task. Callers do not control the sampling unless they are trusted: it is
        random and does not depend on the trace's id, which the caller chooses.
        """
        sampled = caller.sampled if caller is not None and self._trusts else chance.random() < self._share
        place = TraceContext(trace if caller is None else caller.trace, new_span(), sampled, caller)
        if caller is not None:
            place.state = caller.state
            if not sampled:
                place.span = caller.span  # a span that is not exported cannot be a parent
        here.set(place)
        return place

    def answered(
        self, place: TraceContext, method: str, route: str, status: str, begun: int, id: str, customer: int, failed: str
    ) -> None:
        """Export the span of a finished request. `route` is "" if it had none."""
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
        """Export the span of a finished statement, if its parent is sampled."""
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
        """Allow `at` within the block, and reset the trace context afterwards."""
        if not self.on:
            yield
            return
        token = here.set(None)
        try:
            yield
        finally:
            here.reset(token)

    def at(self, works: Iterable[OperationSpan]) -> None:
        """Make these operations the context of the running task, unless a request applies them.

        The statements of all of them belong to the first sampled one.
        """
        if here.get() is None:
            here.set(next((place for work in works if (place := _place(work)) is not None and place.sampled), None))

    def applied(self, works: Iterable[OperationSpan], failed: frozenset[UUID], begun: int) -> None:
        """Export the spans of operations that were applied together, or failed."""
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
        """The trace context of an attempt to deliver `message`, the id of its operation."""
        above = is_sampled(traceparent)
        if above is None:
            return None
        operation = above.of_operation(UUID(message))
        return TraceContext(above.trace, new_span(), True, operation) if above.sampled else operation

    def delivered(self, place: TraceContext, host: str, port: int, status: int | None, begun: int, failed: str) -> None:
        """Export the span of a finished delivery attempt.

        It has no full address, because a part of it may be secret.
        """
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
