"""A single process serves its metrics, and reports an unavailable port at startup."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core.metrics.instruments import Customers
from keyrack.core.metrics.reference import metrics_json, metrics_markdown
from keyrack.core.settings import Settings
from tests.ops.monitoring.scrape import shown
from tests.support.servers import DEADLINE, Process, eventually

pytestmark = pytest.mark.cluster


def test_a_worker_serves_its_metrics(dsn: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = Process("work", env={"KEYRACK_DATABASE_URL": dsn, "KEYRACK_METRICS": "127.0.0.1:0"}, log=log)
    try:
        port = shown(log)
        eventually(lambda: port.scrape().of("keyrack_database_listeners") == [1], "the listener")
        page = port.scrape()
        assert page.samples["keyrack_process_up"] == [({"process": "0"}, 1.0)]
        assert [has["role"] for has, _ in page.samples["keyrack_process_info"]] == ["work"]
        eventually(lambda: port.scrape().sum("keyrack_event_loop_lag_seconds_count") > 0, "the timer")
        assert process.stop() == 0
        port_in_use(dsn, port.number)
    finally:
        process.stop()


def port_in_use(dsn: str, number: int) -> None:
    with socket.create_server(("127.0.0.1", number)):
        env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_METRICS": f"127.0.0.1:{number}"}
        process = Process("serve", "--port", "0", env=env)
        _, errors = process.popen.communicate(timeout=DEADLINE)
    assert process.popen.returncode == 1
    assert errors.strip() == (
        f"keyrack: KEYRACK_METRICS: port {number} at 127.0.0.1 is in use. Each command needs its own."
    )


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::1]:9464", ("::1", 9464)), ("a.internal:0", ("a.internal", 0)),
    ],
)  # fmt: skip
def test_addresses_of_the_metrics_endpoint(value: str, where: tuple[str, int]) -> None:
    assert Settings(metrics=value).metrics_at == where


@pytest.mark.parametrize("value", ["9464", ":9464", "127.0.0.1", "127.0.0.1:65536", "::1:9464", "http://x:9", "x y:1"])
def test_an_invalid_metrics_address_is_rejected(value: str) -> None:
    with pytest.raises(ValidationError, match="is not an address with a port"):
        Settings(metrics=value)


@pytest.mark.parametrize("value", ["yes", "1;2", "1,,2", "all"])
def test_an_invalid_list_of_customers_is_rejected(value: str) -> None:
    with pytest.raises(ValidationError):
        Settings(metrics_customers=value)


def test_customers_are_selected_by_the_setting() -> None:
    customers = Customers()
    assert not customers.any
    customers.choose("1, 12", 10)
    assert customers.any and [customers.has(id) for id in ("1", "12", "2")] == [True, True, False]
    customers.choose("true", 0)
    assert customers.has("2") and not customers.take()
    customers.choose("false", 10)
    assert not customers.any and not customers.has("1")


def test_the_command_prints_the_table_of_metrics() -> None:
    def printed(*options: str) -> str:
        result = CliRunner().invoke(application("metrics"), ["metrics", *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    rows = json.loads(printed("--json"))
    assert rows == metrics_json()
    assert printed("--markdown") == metrics_markdown()
    assert all(row["name"] in printed() for row in rows)
