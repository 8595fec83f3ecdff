"""`python -m benchmarks.history`: a page with a chart for each goal over the commits.

A point is a measurement, from left to right in the order of days and commits. The line is the goal. A point that misses
it is red. The bar behind a point is its interval. A goal that the newest measurement misses comes first, then any that
got worse by more than a fifth.
"""

from __future__ import annotations

import argparse
import html
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.estimates import Estimate
from benchmarks.goals import GOALS, Goal
from benchmarks.measurements import RUNS, Measurement, RunError, all_measurements

PAGE = RUNS / "index.html"
WIDTH, HEIGHT, LEFT, TOP = 360, 130, 46, 12  # of a chart, in pixels
WORSE = 1.2  # times the median of the earlier measurements
TITLE = "Performance over commits"
STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #c9d0da; --card: #fff; --page: #f3f5f8;
  --met: #1f6feb; --missed: #c62828; --worse: #9a5b00 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #3a4452; --card: #1b222c;
  --page: #11161d; --met: #6cb0ff; --missed: #ff7b72; --worse: #e3b341 } }
body { margin: 0 auto; max-width: 1240px; padding: 24px 16px; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 24px; margin: 0 0 4px } p { margin: 0 0 20px; color: var(--soft); max-width: 75ch }
ul { list-style: none; margin: 0; padding: 0; display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 380px), 1fr)) }
li { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px }
h2 { font-size: 15px; margin: 0 } .figure { margin: 0; font-size: 13px; color: var(--soft) }
.worse b { color: var(--worse) } .missed b { color: var(--missed) } svg { width: 100%; height: auto; display: block }
text { font: 11px system-ui, sans-serif; fill: var(--soft) } .axis { stroke: var(--line) }
.goal { stroke: var(--soft); stroke-dasharray: 4 3 } .way { fill: none; stroke: var(--line); stroke-width: 1.5 }
circle { fill: var(--met) } circle.no { fill: var(--missed) }
.interval { stroke: var(--met); stroke-width: 8; opacity: .3 } .interval.no { stroke: var(--missed) }
"""


@dataclass(frozen=True)
class GoalHistory:
    """A goal and its measurements, oldest first."""

    goal: Goal
    points: Sequence[tuple[Measurement, Estimate]]

    @property
    def is_met(self) -> bool:
        """Whether the newest measurement meets the goal."""
        return self.goal.is_met(self.points[-1][1])

    @property
    def is_worse(self) -> bool:
        """Whether the newest measurement is worse than earlier ones by a fifth."""
        earlier = [estimate.value for _, estimate in self.points[:-1]]
        if not earlier:
            return False
        usual, newest = statistics.median(earlier), self.points[-1][1].value
        return newest * WORSE < usual if self.goal.is_minimum else newest > usual * WORSE


def goal_histories(measurements: Sequence[Measurement]) -> list[GoalHistory]:
    """The goals that were ever measured.

    Missed ones are first, then those that got worse.
    """
    histories: list[GoalHistory] = []
    for goal in GOALS:
        points = [(taken, estimate) for taken in measurements if (estimate := goal.estimate(taken)) is not None]
        if points:
            histories.append(GoalHistory(goal, points))
    return sorted(histories, key=lambda history: (history.is_met, not history.is_worse))


def page(all_histories: Sequence[GoalHistory]) -> str:
    """The page in HTML, without scripts."""
    missed = sum(not history.is_met for history in all_histories)
    summary = (
        f"{len(all_histories)} goals, of which {missed} are missed at the newest measurement. A dashed line is the"
        " goal, and a red point misses it. The bar behind a point is the 95 % interval of a median of many short"
        " measurements. Machines differ by a factor of two, so compare ratios rather than"
        " milliseconds, and read the machine in the title of a point."
    )
    cards = "\n".join(_card(history) for history in all_histories)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n<h1>{TITLE}</h1>\n"
        f"<p>{html.escape(summary)}</p>\n<ul>\n{cards}\n</ul>\n"
        "</html>\n"
    )


def _card(history: GoalHistory) -> str:
    goal, newest = history.goal, history.points[-1][1].value
    state = "" if history.is_met else "missed"
    note = "" if history.is_met else ", missed"
    if history.is_worse:
        state, note = f"{state} worse".strip(), f"{note}, worse than before"
    limit = f"{'at least' if goal.is_minimum else 'at most'} {_figure(goal.limit, goal)}"
    return (
        f'<li class="{state}"><h2>{html.escape(goal.title)}</h2>\n<p class="figure"><b>{_figure(newest, goal)}'
        f"{note}</b>; goal: {limit}</p>\n{_chart(history)}</li>"
    )


def _chart(history: GoalHistory) -> str:
    highest = [estimate.interval.high if estimate.interval else estimate.value for _, estimate in history.points]
    top = max(history.goal.limit, *highest) * 1.15
    bottom = HEIGHT - 20
    right, step = WIDTH - 10, (WIDTH - LEFT - 20) / max(1, len(history.points) - 1)

    def height(value: float) -> float:
        return bottom - (bottom - TOP) * value / top

    values = [estimate.value for _, estimate in reversed(history.points)]
    places = [(right - place * step, height(value)) for place, value in enumerate(values)][::-1]
    goal = height(history.goal.limit)
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    bars, circles = "", ""
    for (x, y), (taken, estimate) in zip(places, history.points, strict=True):
        state = "" if history.goal.is_met(estimate) else " no"
        if estimate.interval is not None:
            low, high = height(estimate.interval.low), height(estimate.interval.high)
            bars += f'<line class="interval{state}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
        title = html.escape(_title(taken, estimate, history.goal))
        circles += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{state.strip()}"><title>{title}</title></circle>'
    first, last = history.points[0][0], history.points[-1][0]
    ends = (
        f'<text x="{LEFT}" y="{HEIGHT - 4}">{first.commit[:8]}, {first.day}</text>' if len(history.points) > 1 else ""
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(history.goal.title)}">'
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{bottom}" y2="{bottom}"/>'
        f'<line class="goal" x1="{LEFT}" x2="{WIDTH}" y1="{goal:.1f}" y2="{goal:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{goal + 4:.1f}" text-anchor="end">{_number(history.goal.limit)}</text>'
        f'<text x="{LEFT - 6}" y="{bottom + 4}" text-anchor="end">0</text>'
        f'<polyline class="way" points="{way}"/>{bars}{circles}{ends}'
        f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">{last.commit[:8]}, {last.day}</text></svg>'
    )


def _title(taken: Measurement, estimate: Estimate, goal: Goal) -> str:
    figure = _figure(estimate.value, goal)
    if estimate.interval is not None:
        figure += f" ({_number(estimate.interval.low)} to {_number(estimate.interval.high)})"
    commit = taken.commit[:8] + (" with changes" if taken.has_changes else "")
    return f"{figure} at {commit} on {taken.day}, on {taken.machine or 'an unknown machine'}"


def _figure(value: float, goal: Goal) -> str:
    return _number(value) + ("" if goal.unit.startswith("/") else " ") + goal.unit


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"


def main(arguments: Sequence[str]) -> int:
    """Write the page, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history", description="Draw each goal over the commits."
    )
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE", help="the page; default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        all_histories = goal_histories(all_measurements())
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(page(all_histories))
    for history in all_histories:
        if not history.is_met or history.is_worse:
            state = "worse than before" if history.is_met else "missed"
            print(f"{history.goal.title}: {_figure(history.points[-1][1].value, history.goal)}, {state}")
    print(f"The page is {options.output}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
