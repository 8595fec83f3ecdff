"""B15: an exited background task is reported and restarted.

Otherwise the process ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from keyrack.core import background_tasks
from keyrack.core.background_tasks import supervise
from keyrack.core.settings import Settings
from keyrack.db.notification_listener import NotificationListener
from keyrack.db.worker_wakeup import WakeupNotifier
from keyrack.ops.housekeeping import Housekeeping
from keyrack.server.worker import Worker
from keyrack.webhooks.delivery import DeliveryWorker
from tests.support.log_lines import captured_events
from tests.support.people import web
from tests.support.servers import DEADLINE, RunningServer, eventually
from tests.webhooks.delivery_database import Office
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.cluster


RESTARTING = "background task exited, restarting"


def alerts(logs: list[Any]) -> list[tuple[str, str]]:
    return [(line["task"], repr(line["error"])) for line in logs if line["alert"]]


def failing_once(method: Any) -> Any:
    """The same function, except that its first call fails."""
    calls: list[None] = []

    async def call(*args: Any, **options: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise RuntimeError("out of order")
        return await method(*args, **options)

    return call


def test_an_exited_task_is_restarted_until_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """B15: in any way. After a while the pauses before restarts are short again."""
    pauses: list[float] = []

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(background_tasks, "asyncio", SimpleNamespace(sleep=no_sleep))  # other threads sleep as usual
    runs = iter([RuntimeError("broken"), None, None, KeyError("x"), None, None, None, None, "over"])
    over: list[str] = []

    async def run() -> None:
        result = next(runs)
        if isinstance(result, Exception):
            raise result
        if result is not None:
            over.append(result)

    with captured_events(RESTARTING) as logs:
        asyncio.run(supervise("sweeper", run, lambda: bool(over)))
    assert [error for _, error in alerts(logs)] == [
        "RuntimeError('broken')", "None", "None", "KeyError('x')", "None", "None", "None", "None",
    ]  # fmt: skip
    assert all(line["log_level"] == "critical" for line in logs)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(
    ("owner", "method", "loop"),
    [
        (NotificationListener, "run", "notification listener"),
        (Housekeeping, "run", "housekeeping"),
        (Worker, "_call_others", "worker wakeup"),
        (Worker, "_loop", "operations"),
        (DeliveryWorker, "run", "webhook delivery"),
        (DeliveryWorker, "_recording", "delivery results"),
    ],
)
def test_each_task_of_the_worker_is_supervised(
    own: str, owner: type, method: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B15: it is reported, and its work is still done."""
    monkeypatch.setattr(background_tasks, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(owner, method, failing_once(getattr(owner, method)))

    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                await office.deliver(webhook, 1)
                async with office.worker():
                    await office.drained()
                    await office.until("housekeeping", "select count(*) > 0 from housekeeping", True)
                    while not alerts(logs):  # noqa: ASYNC110 - what another task writes
                        await asyncio.sleep(0.01)

    with captured_events(RESTARTING) as logs:
        asyncio.run(asyncio.wait_for(main(), DEADLINE))
    assert alerts(logs) == [(loop, "RuntimeError('out of order')")]


@pytest.mark.parametrize(
    ("owner", "loop"), [(NotificationListener, "notification listener"), (WakeupNotifier, "worker wakeup")]
)
def test_each_task_of_the_server_is_supervised(
    dsn: str, settings: Settings, owner: type, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B15: the same in a process that serves."""
    monkeypatch.setattr(owner, "run", failing_once(owner.run))
    with (
        captured_events(RESTARTING) as logs,
        RunningServer(settings, dsn, worker=False) as server,
    ):
        eventually(lambda: alerts(logs), "the alert")
        assert web().get(server.url + "/health").status_code == 200
    assert alerts(logs) == [(loop, "RuntimeError('out of order')")]


ENDING = """
import asyncio, sys
from keyrack.server import {module} as changed
async def end(self, *args, **options):
    await asyncio.sleep(0.3)
    {end}
changed.{name} = end
sys.argv = ["keyrack", *{arguments}]
from tests.support.log_lines import captured_events
from keyrack.cli.main import main
main()
"""
RAISE: Callable[[str], str] = "raise RuntimeError({!r})".format


@pytest.mark.parametrize(
    ("module", "name", "end", "arguments", "said"),
    [
        ("worker", "Worker.run", RAISE("broken"), ["serve", "--port", "0"], "worker"),
        ("worker", "Worker.run", "return", ["work"], "worker"),
        ("process", "_ServerWithoutSignals.main_loop", "return", ["serve", "--port", "0"], "server"),
    ],
)
def test_a_process_without_its_worker_or_server_ends(
    dsn: str, module: str, name: str, end: str, arguments: list[str], said: str
) -> None:
    """B15: with an alert and the status 1, so that the process is restarted."""
    code = ENDING.format(module=module, name=name, end=end, arguments=arguments)
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"KEYRACK_DATABASE_URL": dsn},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert process.returncode == 1, process.stderr
    lines = [json.loads(line) for line in process.stderr.splitlines() if line.startswith("{")]
    (alert,) = [line for line in lines if line.get("alert")]
    assert (alert["event"], alert["component"]) == ("component exited, process stops", said)
    assert alert["level"] == "critical"
