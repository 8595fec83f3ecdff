"""The output of commands, in the form that golden files have."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

SET_PARAMETER = re.compile(r"set ([\w.]+)=(?:'')?([^;']*)(?:'')?;")


def run_module(module: str, *arguments: str, dsn: str | None = None) -> str:
    """Run a Python module and return its output.

    There is no terminal, and no setting but the address of the database.
    """
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "PATH": os.environ["PATH"], "HOME": home, "LANG": "C", "PYTHONUTF8": "1", "TERM": "dumb", "NO_COLOR": "1",
            "COLUMNS": "80",
        }  # fmt: skip
        if dsn is not None:
            environment["KEYRACK_DATABASE_URL"] = dsn
        command = [sys.executable, "-m", module, *(argument.replace("{home}", home) for argument in arguments)]
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {result.returncode}: {result.stderr}")
    return result.stdout


def read_json(*arguments: str, dsn: str | None = None) -> Any:
    return json.loads(run_module("keyrack", *arguments, "--json", dsn=dsn))


def format_openapi() -> str:
    """The OpenAPI document; the order of its members is part of it."""
    return json.dumps(json.loads(run_module("keyrack", "openapi")), indent=1, ensure_ascii=False) + "\n"


def format_help() -> str:
    return run_module("tests.golden.help_pages")


def format_metrics() -> str:
    """Each metric with its type, labels, help and buckets, sorted by name."""
    lines: list[str] = []
    for metric in sorted(read_json("metrics"), key=lambda metric: metric["name"]):
        lines += [f"{metric['kind']} {metric['name']}{{{', '.join(metric['labels'])}}}", f"    {metric['help']}"]
        if "buckets" in metric:
            lines.append(f"    buckets: {' '.join(map(str, metric['buckets']))}")
    return "\n".join(lines) + "\n"


def list_metric_names() -> list[str]:
    return [metric["name"] for metric in read_json("metrics")]


def format_settings_sections() -> str:
    """The settings of each section of the configuration file; those without a section come first."""
    rows = sorted((row["section"] or "", row["name"]) for row in read_json("settings"))
    blocks = [
        "\n".join([f"[{section}]" if section else "(no section)", *(name for _, name in names)])
        for section, names in groupby(rows, key=lambda row: row[0])
    ]
    return "\n\n".join(blocks) + "\n"


def format_migrations() -> str:
    """The SQL of all migrations, as they run on an empty database."""
    steps = read_json("migrate", "--plan", "--sql", "--state", "{home}/state")["steps"]
    lines = [f"-- {len(steps)} revisions, {sum(len(step['sql']) for step in steps)} statements"]
    for step in steps:
        note = f", unused since {step['unusedSince']}" if step["unusedSince"] else ""
        lines.append(f"\n-- revision {step['revision']}: {len(step['sql'])} statements{note}")
        lines += [f"\n{statement};" for statement in step["sql"]]
    return "\n".join(lines) + "\n"


def list_session_settings() -> list[str]:
    """The settings of each session at its start.

    `keyrack database pgbouncer` prints them, without those that PgBouncer keeps itself.
    """
    query = read_json("database", "pgbouncer")["databases"]["keyrack"]
    return [f"{name} = {value}" for name, value in SET_PARAMETER.findall(query)]


def list_housekeeping_steps(dsn: str) -> list[str]:
    return sorted(step["step"] for step in read_json("housekeeping", "list", dsn=dsn))
