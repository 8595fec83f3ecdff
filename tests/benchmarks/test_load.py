"""The measurements of `benchmarks.load`."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest
from benchmarks.load import cpu_seconds, cpu_since, cpu_times


def test_processes_that_ended_count_as_nothing() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        before = cpu_times([os.getpid(), child.pid])
        assert set(before) == {os.getpid(), child.pid}
    with pytest.raises(FileNotFoundError):
        cpu_seconds(child.pid)
    assert set(cpu_times([os.getpid(), child.pid])) == {os.getpid()}
    assert cpu_since({child.pid: before[child.pid]}) == 0
    assert cpu_since(before) >= 0


def test_the_time_of_all_threads_counts() -> None:
    worked, measured = threading.Event(), threading.Event()

    def work() -> None:
        while time.thread_time() < 0.05:
            pass
        worked.set()
        measured.wait()

    before = cpu_times([os.getpid()])
    thread = threading.Thread(target=work)
    thread.start()
    worked.wait()
    assert cpu_since(before) >= 0.04
    measured.set()
    thread.join()
