"""Export of spans to a collector by OpenTelemetry's SDK (OTLP over HTTP).

No request waits for the collector. Spans that it does not accept are dropped and counted. The log has one line when it
becomes unreachable, and one when it is reachable again. OpenTelemetry is only imported here, and only if tracing is on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace import set_span_in_context as below
from opentelemetry.trace.span import TraceState

from keyrack import __version__
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import SPANS
from keyrack.core.settings import Settings
from keyrack.core.tracing.context import TraceContext
from keyrack.core.tracing.spans import TRACES, Kind, SpanData

log = structlog.get_logger("keyrack.traces")
seldom = RateLimitedLogger("keyrack.traces", MINUTE)

KINDS: dict[Kind, SpanKind] = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "consumer": SpanKind.CONSUMER}
PIECE = 512  # maximum number of spans in one export
PATIENCE = 10.0  # timeout of an export with its retries (seconds)
LAST = 2.0  # maximum wait for the last export at shutdown (seconds)
MOST_STATE = 512  # characters of a `tracestate`; a longer one is dropped, as W3C allows
SAMPLED = TraceFlags(TraceFlags.SAMPLED)
NO_STATE = TraceState()


class Collector:
    """The span queue of one process."""

    def __init__(self, address: str, most: int) -> None:
        self._queue_size = most
        self._queued = 0  # only used in the thread of the event loop
        self._ids = Ids()
        self._exporter = Exporter(address)
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(self._exporter, max_queue_size=most, max_export_batch_size=min(PIECE, most))
        )
        self._tracer = self._provider.get_tracer("keyrack", __version__)

    def enqueue(self, span: SpanData) -> None:
        """Put a span into the queue. Drops it if the queue is full."""
        if self._queued - self._exporter.dequeued >= self._queue_size:
            SPANS.add("dropped")
            seldom.warning("span queue full, spans dropped", queue_size=self._queue_size)
            return
        self._queued += 1
        place = span.place
        self._ids.trace, self._ids.span = int(place.trace, 16), int(place.span, 16)
        otel_span = self._tracer.start_span(
            span.name,
            context=below(NonRecordingSpan(_context(place.above))) if place.above is not None else None,
            kind=KINDS[span.kind],
            attributes={**span.attributes, "error.type": span.failed} if span.failed else span.attributes,
            links=[Link(_context(other)) for other in place.links],
            start_time=span.start_ns,
        )
        if span.failed:
            otel_span.set_status(Status(StatusCode.ERROR))
        otel_span.end(span.end_ns)

    def close(self) -> None:
        """Export the remaining spans, within the exporter's timeout."""
        self._provider.shutdown()


class Ids(IdGenerator):
    """Returns the ids that were chosen before the span ended."""

    trace = 0
    span = 0

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return self.span


class Exporter(SpanExporter):
    """OpenTelemetry's exporter with counters and log. It runs in the queue's thread."""

    def __init__(self, address: str) -> None:
        self.dequeued = 0  # spans that have left the queue
        self._inner = OTLPSpanExporter(endpoint=address, timeout=PATIENCE)
        self._is_unreachable = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._inner.export(spans)
        except Exception as error:  # the queue must survive any error
            result = SpanExportResult.FAILURE
            seldom.warning("span export failed", error=error)
        self.dequeued += len(spans)
        is_sent = result is SpanExportResult.SUCCESS
        if is_sent and self._is_unreachable:
            log.info("trace collector reachable")
        elif not is_sent and not self._is_unreachable:
            log.warning("trace collector unreachable, spans dropped", count=len(spans))
        self._is_unreachable = not is_sent
        SPANS.add("exported" if is_sent else "failed", by=len(spans))
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


def _context(place: TraceContext) -> SpanContext:
    return SpanContext(int(place.trace, 16), int(place.span, 16), True, SAMPLED, _state(place.state))


def _state(header: str) -> TraceState:
    return TraceState.from_header([header]) if header and len(header) <= MOST_STATE else NO_STATE


def _resource() -> Resource:
    """The resource attributes. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES extend or override them."""
    own = {"service.version": __version__, "service.instance.id": str(uuid.uuid4()), "process.pid": os.getpid()}
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create(own if named else {**own, "service.name": "keyrack"})


@asynccontextmanager
async def export_spans(settings: Settings) -> AsyncGenerator[None]:
    """Export spans to the collector of the settings within the block.

    At the end, the remaining spans are exported within `LAST` seconds.
    """
    assert settings.traces is not None  # noqa: S101 - the caller has checked
    for name in ("opentelemetry", "urllib3"):  # they would log each failure, and this module logs only changes
        logging.getLogger(name).setLevel(logging.CRITICAL)
    collector = Collector(settings.traces, settings.traces_queue)
    TRACES.begin(
        collector.enqueue,
        share=settings.traces_sample_ratio,
        trusts=settings.traces_trust_parent,
        customers=settings.traces_customers,
    )
    log.info("trace export started", sample_ratio=settings.traces_sample_ratio)
    try:
        yield
    finally:
        TRACES.end()
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            collector.close()
            loop.call_soon_threadsafe(closed.set)

        threading.Thread(target=close, daemon=True).start()  # a daemon, so that the process does not wait for it
        try:
            async with asyncio.timeout(LAST):
                await closed.wait()
        except TimeoutError:
            log.warning("span export timed out at shutdown")
