"""The verdict of the failover drill on the cell that has no failures."""

from __future__ import annotations

from drills.failover import judge_unaffected
from drills.load import Ledger
from drills.verdict import Verdict

from keyrack.core.error_codes import OVERLOADED

STEADY = [1.0, 1.1, 1.2, 1.3]  # times of successes


def _wrong(ledger: Ledger) -> list[str]:
    verdict = Verdict()
    judge_unaffected(ledger, verdict)
    return verdict.wrong


def _ledger(**times: list[list[float]]) -> Ledger:
    return Ledger(**{"writes": [STEADY, STEADY], "reads": [STEADY, STEADY], **times})


def test_a_cell_that_answers_everything_is_unaffected() -> None:
    assert _wrong(_ledger()) == []


def test_each_answer_that_is_no_success_is_named() -> None:
    ledger = _ledger()
    ledger.errors.update({"0 ": 1, "503 away": 2})
    assert _wrong(ledger) == ["requests without success: 3, such as ['0 ', '503 away', '503 away']"]


def test_a_process_without_cpu_time_is_not_a_failure_of_the_other_cell() -> None:
    ledger = _ledger()
    ledger.errors[f'503 {{"status": "503", "message": "{OVERLOADED}"}}'] = 3
    assert _wrong(ledger) == []


def test_an_operation_that_waits_for_a_worker_is_named() -> None:
    ledger = _ledger()
    ledger.waits += [0.2, 12.0]
    assert _wrong(ledger) == ["waits for a worker of more than 10 s: 1, such as ['12.0 s']"]


def test_a_gap_at_one_node_in_reads_alone_is_named() -> None:
    ledger = _ledger(reads=[STEADY, [1.0, 1.1, 9.1, 9.2]])
    assert _wrong(ledger) == ["gaps without an answer of more than 3 s: 1, such as ['8.0 s']"]


def test_a_cell_without_any_answer_is_named() -> None:
    assert _wrong(_ledger(writes=[STEADY, []])) == ["gaps without an answer of more than 3 s: 1, such as ['inf s']"]
