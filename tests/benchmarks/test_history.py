"""Runs of benchmarks as files, the goals, and the page of charts."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from benchmarks.estimates import Estimate, Interval
from benchmarks.goals import GOALS, Goal
from benchmarks.history import GoalHistory, goal_histories, main, page
from benchmarks.measurements import Measurement, RunError, parse, read_run, write_run

from benchmarks import measurements, tables

SECTION = (
    "Taken at commit `0123abcd` with changes on 3 November 2026, on 2 cores (Some CPU) with 24 GiB and a load of 0.5,"
    " Python 3.11.7.\n\n| | p50 ms | ratio |\n|---|---|---|\n| GET /cars | 1,500.5 | **1.4** |\n"
)
RATIO = Goal("Reads", "some reads", "GET /cars", "ratio", 1.5)


def taken(ratio: float | str, day: int, commit: str = "0123abcd") -> Measurement:
    measurement = parse("some reads", SECTION.replace("1.4", str(ratio)))
    assert measurement is not None
    return replace(measurement, day=date(2026, 11, day), commit=commit)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_run({"some reads": SECTION, "some words": "No origin.\n"}, tmp_path / "runs")
    assert read_run(path) == [taken(1.4, 3)]
    (measurement,) = read_run(path)
    assert (measurement.has_changes, measurement.machine) == (True, "2 cores (Some CPU) with 24 GiB and a load of 0.5")
    assert measurement.cell("GET /cars", "p50 ms") == "1,500.5"
    assert measurement.cell("GET /cars", "p99 ms") is None
    assert measurement.cell("GET /users", "p50 ms") is None


def test_the_origin_of_a_table_is_read_as_it_was_written() -> None:
    measurement = parse("some reads", f"{tables.origin()}\n\n| | ms |\n|---|---|\n| GET /cars | 1 |\n")
    assert measurement is not None
    assert measurement.commit
    assert measurement.machine.startswith(f"{os.cpu_count()} cores")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tables": [{}]}', '{"tables": 1}'])
def test_a_damaged_run_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(RunError, match="is not a run of benchmarks"):
        read_run(path)


def test_every_goal_is_a_figure_of_the_results() -> None:
    """A renamed row must not end the history of a goal."""
    sections: dict[str, str] = {}
    for document in set(tables.places().values()):
        sections |= tables.sections(document.read_text())
    unknown = [goal.title for goal in GOALS if goal.table not in sections]
    assert unknown == []
    head = "Taken at commit `0123abcd` on 3 November 2026.\n\n"
    for goal in GOALS:
        table = "\n".join(
            line for line in sections[goal.table].partition(tables.END)[0].splitlines() if line[:1] == "|"
        )
        measurement = parse(goal.table, head + table)
        assert measurement is not None
        assert goal.estimate(measurement) is not None, goal.title
    assert len({goal.title for goal in GOALS}) == len(GOALS)


def test_a_goal_is_a_maximum_or_a_minimum() -> None:
    assert RATIO.is_met(Estimate(1.5))
    assert not RATIO.is_met(Estimate(1.51))
    rate = replace(RATIO, is_minimum=True)
    assert rate.is_met(Estimate(1.5))
    assert not rate.is_met(Estimate(1.49))


def test_the_page_begins_with_missed_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    met = replace(RATIO, title="Met", limit=9)
    worse = replace(RATIO, title="Worse", table="other reads", limit=9)
    missed = replace(RATIO, title="Missed <b>", limit=1)
    monkeypatch.setattr("benchmarks.history.GOALS", (met, worse, missed, replace(RATIO, table="never measured")))
    measured = [taken(1.4, 3), taken(1.5, 4, "4567cdef")]
    others = [replace(measurement, table="other reads") for measurement in (taken(1.0, 3), taken(1.3, 4))]
    histories = goal_histories([*measured, *others])
    assert [history.goal.title for history in histories] == ["Missed <b>", "Worse", "Met"]
    text = page(histories)
    assert "3 goals, of which 1 are missed" in text
    assert "Missed &lt;b&gt;" in text
    assert text.count("<circle") == 6
    assert "1.5 times at 4567cdef with changes on 2026-11-04, on 2 cores (Some CPU)" in text


def test_a_goal_is_met_by_the_median() -> None:
    measurement = taken("1.5** (1.4-1.7)", 3)
    estimate = RATIO.estimate(measurement)
    assert estimate is not None
    assert estimate == Estimate(1.5, Interval(1.4, 1.7))
    assert RATIO.is_met(estimate)


def test_the_page_draws_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An early run has none."""
    monkeypatch.setattr("benchmarks.history.GOALS", (RATIO,))
    early = taken(1.4, 3)
    path = write_run({"some reads": SECTION.replace("**1.4**", "**1.6** (1.3-1.9)")}, tmp_path)
    text = page(goal_histories([early, *read_run(path)]))
    assert (text.count("<circle"), text.count('<line class="interval')) == (2, 1)
    assert '<line class="interval no"' in text
    assert "1.6 times (1.3 to 1.9) at 0123abcd" in text
    assert "1.4 times at 0123abcd" in text


def test_a_slower_rate_is_worse() -> None:
    rate = replace(RATIO, is_minimum=True, limit=0)
    for last, is_worse in ((0.7, True), (0.9, False), (2.0, False)):
        points = [(measurement, value) for measurement in (taken(1.0, 3),) for value in (Estimate(1.0), Estimate(last))]
        assert GoalHistory(rate, points).is_worse == is_worse, last


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "page.html"
    assert main(["--output", str(output)]) == 0
    assert output.read_text().startswith("<!doctype html>")
    assert f"The page is {output}." in capsys.readouterr().out


def test_the_command_names_a_damaged_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text("{")
    monkeypatch.setattr("benchmarks.history.all_measurements", partial(measurements.all_measurements, tmp_path))
    assert main(["--output", str(tmp_path / "page.html")]) == 1
    assert "run.json is not a run of benchmarks" in capsys.readouterr().err
