"""The counts of `perf`."""

from __future__ import annotations

import os
import time

import pytest
from benchmarks.instructions import EventCounter, is_countable, parse


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("1264183,,instructions:u,1029413,100.00,1.21,insn per cycle\n", 1_264_183),
        # A processor with two kinds of cores, one of which was not used
        ("981242,,cpu_core/instructions:u/,801,100.00,,\n<not counted>,,cpu_atom/instructions:u/,0,0.00,,\n", 981_242),
        ("900,,cpu_core/instructions:u/,801,60.00,,\n100,,cpu_atom/instructions:u/,500,40.00,,\n", 1_000),
        ("0.68,msec,task-clock:u,679013,100.00,0.119,CPUs utilized\n", 0.68),
        ("Events disabled\nEvents enabled\n120,,instructions:u,801,100.00,,\n", 120),
        ("<not supported>,,instructions:u,0,100.00,,\n", None),
        ("<not counted>,,instructions:u,0,0.00,,\n", None),
        ("Error:\nAccess to performance monitoring and observability operations is limited.\n", None),
        ("", None),
    ],
)
def test_the_output_of_perf(output: str, number: float | None) -> None:
    assert parse(output) == number


@pytest.fixture
def no_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    is_countable.cache_clear()
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("no_perf")
def test_a_machine_without_perf_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with EventCounter(os.getpid()) as counter:
        counter.resume()
        counter.pause()
    assert counter.number is None
    assert capfd.readouterr() == ("", "")


def test_an_unknown_event_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with EventCounter(os.getpid(), "no-such-event") as counter:
        counter.resume()
        counter.pause()
    assert counter.number is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not is_countable("task-clock:u"), reason="perf cannot count events on this machine")
def test_events_count_between_resume_and_pause(capfd: pytest.CaptureFixture[str]) -> None:
    with EventCounter(os.getpid(), "task-clock:u") as counter:
        work(200)
        for _ in range(2):
            counter.resume()
            work(20)
            counter.pause()
    assert counter.number is not None
    assert 35 < counter.number < 200
    assert capfd.readouterr() == ("", "")


def work(milliseconds: int) -> None:
    """Use this much CPU time."""
    end = time.process_time() + milliseconds / 1e3
    while time.process_time() < end:
        pass
