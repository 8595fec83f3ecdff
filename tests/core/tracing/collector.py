"""A collector for tests: it receives OTLP over HTTP and keeps the spans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.servers import eventually
from tests.webhooks.receiver import Received, Receiver, Reply

PATH = "/v1/traces"
KINDS = {2: "server", 3: "client", 5: "consumer"}


@dataclass(frozen=True)
class Told:
    """One received span; its ids are hexadecimal."""

    name: str
    kind: str
    trace: str
    id: str
    above: str  # "" for a root span
    state: str
    begun: int
    ended: int
    failed: bool
    told: dict[str, Any]
    links: list[tuple[str, str]]
    who: dict[str, Any]  # resource attributes


class Collector(Receiver):
    """Receives spans. `answer` decides on each request; by default it accepts all."""

    def __init__(self, answer: Callable[[Received], Reply] = lambda _: (200, b"", {})) -> None:
        super().__init__(answer)
        self.address = self.url + PATH
        self._read = 0
        self._spans: list[Told] = []

    @property
    def spans(self) -> list[Told]:
        """All spans that have arrived."""
        for request in self.got[self._read :]:
            self._read += 1
            assert request.path == PATH and request.headers["content-type"] == "application/x-protobuf"
            whole = ExportTraceServiceRequest.FromString(request.body)
            for resource in whole.resource_spans:
                who = _values(resource.resource.attributes)
                self._spans += [_told(span, who) for scope in resource.scope_spans for span in scope.spans]
        return list(self._spans)

    def of(self, trace: str, **told: Any) -> list[Told]:
        """The spans of a trace with these attributes; underscores of names stand for dots."""
        wanted = {name.replace("_", "."): value for name, value in told.items()}
        return [span for span in self.spans if span.trace == trace and wanted.items() <= span.told.items()]

    def one(self, trace: str, name: str) -> Told:
        """Wait for the only span of the trace with this name."""
        found = eventually(lambda: [span for span in self.of(trace) if span.name == name], f"{name} of {trace}")
        (span,) = found
        return span


def _told(span: Any, who: dict[str, Any]) -> Told:
    return Told(
        span.name, KINDS[span.kind], span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(),
        span.trace_state, span.start_time_unix_nano, span.end_time_unix_nano, span.status.code == 2,
        _values(span.attributes), [(link.trace_id.hex(), link.span_id.hex()) for link in span.links], who,
    )  # fmt: skip


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
