"""Span export: sampling, and a collector that is slow, unreachable or not set."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.core.tracing.context import TraceContext
from keyrack.core.tracing.spans import Traces
from tests.core.tracing.collector import Collector
from tests.core.tracing.conftest import House, Traced, a_trace, serving
from tests.ops.monitoring.scrape import shown
from tests.support.people import Person, Town, web
from tests.support.servers import DEADLINE, eventually
from tests.webhooks.receiver import Received, Receiver, Reply

pytestmark = pytest.mark.cluster

AWAY = "trace collector unreachable, spans dropped"
BACK = "trace collector reachable"
DROPPED = "span queue full, spans dropped"
LATE = "span export timed out at shutdown"


def person(traced: Traced, house: House, name: str) -> Person:
    return Town(traced.sql, house).person(name)


def test_trusted_callers_decide_what_is_traced(traced: Traced, tmp_path: Path) -> None:
    """Webhooks of an unsampled request have the same trace without the sampled flag."""
    with (
        Collector() as collector,
        serving(
            traced.dsn, tmp_path, "--no-worker", traces=collector.address, traces_sample_ratio="0",
            traces_trust_parent="true", traces_customers="true",
        ) as house,
    ):  # fmt: skip
        tom = person(traced, house, "tom")
        (wanted, parent), (unwanted, other) = a_trace(), a_trace(sampled=False)
        assert tom.get("/cars", headers={"traceparent": other}).status_code == 200
        assert tom.get("/cars").status_code == 200
        assert tom.get("/cars", headers={"traceparent": parent}).status_code == 200
        request = collector.one(wanted, "GET /cars")
        assert request.told["keyrack.customer"] == tom.customer
        body = {"carId": tom.car(), "userId": tom.user(), "start": "2026-01-01T00:00:00Z"}
        operation = tom.put("/assignments", body, headers={"traceparent": other}).headers["operation-id"]
        assert {span.trace for span in collector.spans} == {wanted}
        kept = traced.sql.value("select traceparent from operation where operation_id = $1::text::uuid", operation)
        assert kept == other and unwanted in kept
        tom.client.close()


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize(
    ("share", "trusts", "expected"), [(0, False, {False}), (1, False, {True}), (0, True, None), (1, True, None)]
)
def test_the_caller_or_the_sampler_decides(
    share: float, trusts: bool, sampled: bool, expected: set[bool] | None
) -> None:
    traces = Traces()
    traces.begin(lambda _: None, share=share, trusts=trusts, customers=False)
    caller = TraceContext("a" * 32, "b" * 16, sampled)
    assert {traces.request(caller, "").sampled for _ in range(20)} == (expected or {sampled})
    assert traces.request(None, "c" * 32).sampled is bool(share)


def test_sampling_does_not_depend_on_the_trace_id() -> None:
    """Sampling by the trace id would let callers choose a sampled id."""
    traces = Traces()
    traces.begin(lambda _: None, share=0.5, trusts=False, customers=False)
    assert {traces.request(TraceContext("0" * 31 + "1", "b" * 16, True), "").sampled for _ in range(200)} == {
        True,
        False,
    }


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_requests_do_not_wait_for_a_collector(traced: Traced, tmp_path: Path, gate: threading.Event) -> None:
    """Dropped spans are counted. The log has one line for the failure and one for the recovery.

    Shutdown does not wait for the collector.
    """
    answers: list[int] = [400]

    def answer(_: Received) -> Reply:
        if answers[0] == 0:
            gate.wait(DEADLINE)
        return answers[0] or 200, b"", {}

    with (
        Collector(answer) as collector,
        serving(
            traced.dsn, tmp_path, "--no-worker", traces=collector.address, traces_sample_ratio="1", traces_queue="3",
            metrics="127.0.0.1:0",
        ) as house,
    ):  # fmt: skip
        port = shown(house.log)

        def ask(count: int) -> None:
            for _ in range(count):
                assert web().get(f"{house.url}/v3").status_code == 200

        def told(result: str) -> float:
            return port.scrape().sum("keyrack_trace_spans_total", result=result)

        for count in range(1, 4):
            ask(1)
            eventually(lambda count=count: told("failed") >= count, "the failure")
        answers[0] = 200
        ask(1)
        eventually(lambda: told("exported") >= 1, "the success")
        assert (len(house.lines(AWAY)), len(house.lines(BACK))) == (1, 1)
        answers[0] = 0
        ask(20)
        assert told("dropped") >= 14
        assert len(house.lines(DROPPED)) == 1
        assert house.process.stop() == 0
        assert len(house.lines(LATE)) == 1
        assert not [line for line in house.log.read_text().splitlines() if "opentelemetry" in line]


def test_disabled_tracing_loads_keeps_and_sends_nothing(alice: Person) -> None:
    script = (
        "import sys, keyrack.cli.main, keyrack.server.process, keyrack.webhooks.delivery, keyrack.cli.commands.run;"
        "print([name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'google', 'requests')])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    body = {"carId": alice.car_with_box(), "userId": alice.user(), "start": "2026-01-01T00:00:00Z"}
    trace, parent = a_trace()
    with Receiver() as receiver:
        hook = alice.put("/webhooks", {"url": receiver.url}).json()["id"]
        answer = alice.put("/assignments", body, headers={"traceparent": parent})
        got = eventually(lambda: list(receiver.got), "the webhook")[0]
        assert alice.delete(f"/webhooks/{hook}").status_code == 204
    assert answer.headers["x-request-id"] == trace
    assert "traceparent" not in got.headers
    sql = "select traceparent is null from operation where operation_id = $1::text::uuid"
    assert alice.sql.value(sql, answer.headers["operation-id"])


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("work",), ("demo", "--port", "0")])
def test_without_the_packages_nothing_starts(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)  # as if it were not installed
    monkeypatch.setenv("KEYRACK_TRACES", "http://127.0.0.1:9/v1/traces")
    said = CliRunner().invoke(application(command[0]), command)
    assert (said.exit_code, said.stderr.strip()) == (
        1,
        "keyrack: KEYRACK_TRACES is set, but opentelemetry.sdk is not installed. "
        "Run: pip install 'keyrack[traces]'. Nothing was started.",
    )


@pytest.mark.parametrize("value", ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://", "http://user:word@host/v1"])
def test_an_invalid_address_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, match="not an http or https address without a user"):
        Settings(traces=value)
