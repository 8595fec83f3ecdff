"""In charge of the table of metrics: docs/metrics.md, and the same as data."""

from __future__ import annotations

from typing import Any

from keyrack.core.metrics.catalog import OF_PROCESS, OF_SERVER, OF_SYSTEM
from keyrack.core.metrics.instruments import Histogram, Instrument

HEAD = """# Metrics

Made from the table of metrics (`keyrack metrics --markdown`); a test holds it current. How they are switched on, and
what to do with them: [Metrics](monitoring.md#metrics).

Every process has its own series, with its place in the label `process`: `"0"` where there is one, else the number of
each child. A process that was started again begins at 0. What is told of the database is told once, and has no such
label.

Durations are histograms in seconds, whose series end in `_bucket`, `_sum` and `_count`.

"""


def metrics_json() -> list[dict[str, Any]]:
    """The metrics as data."""
    rows = [_row(instrument, ("process",)) for instrument in OF_PROCESS] + [
        _row(instrument) for instrument in OF_SERVER
    ]
    return rows + [{"name": name, "kind": kind, "labels": ["process"], "help": help} for name, kind, help in OF_SYSTEM]


def _row(instrument: Instrument, labels: tuple[str, ...] = ()) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": instrument.name,
        "kind": instrument.kind,
        "labels": [*labels, *instrument.labels],
        "help": instrument.help,
    }
    return row | ({"buckets": list(instrument.bounds)} if isinstance(instrument, Histogram) else {})


def metrics_markdown() -> str:
    """docs/metrics.md."""
    lines = ["| Name | Kind | Labels | What it is |", "|---|---|---|---|"]
    for row in metrics_json():
        labels = ", ".join(f"`{label}`" for label in row["labels"])
        lines.append(f"| `{row['name']}` | {row['kind']} | {labels} | {row['help']} |")
    return HEAD + "\n".join(lines) + "\n"
