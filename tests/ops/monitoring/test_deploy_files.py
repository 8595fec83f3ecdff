"""The files for Prometheus and Grafana in deploy/ name existing metrics and are valid."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from keyrack.core.metrics.reference import metrics_json
from keyrack.ops.monitoring import findings, thresholds
from tests.ops.monitoring.scrape import ran

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus/keyrack.rules.yml"
RULES_TEST = DEPLOY / "prometheus/keyrack.rules.test.yml"
DASHBOARD = DEPLOY / "grafana/keyrack.json"

promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")

# The parts of Grafana's dashboard model in use
SOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}},
}
PANEL: dict[str, Any] = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "type": {"enum": ["row", "stat", "timeseries"]},
        "title": {"type": "string", "minLength": 1},
        "gridPos": {
            "type": "object",
            "required": ["x", "y", "w", "h"],
            "properties": {
                "x": {"type": "integer", "minimum": 0, "maximum": 23},
                "y": {"type": "integer", "minimum": 0},
                "w": {"type": "integer", "minimum": 1, "maximum": 24},
                "h": {"type": "integer", "minimum": 1},
            },
        },
        "datasource": SOURCE,
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["refId", "expr", "datasource"],
                "properties": {
                    "refId": {"type": "string", "pattern": "^[A-Z]$"},
                    "expr": {"type": "string", "minLength": 1},
                    "datasource": SOURCE,
                },
            },
        },
        "fieldConfig": {
            "type": "object",
            "required": ["defaults", "overrides"],
            "properties": {"defaults": {"type": "object", "required": ["unit", "thresholds"]}},
        },
        "options": {"type": "object"},
    },
    "if": {"properties": {"type": {"const": "row"}}},
    "else": {"required": ["targets", "fieldConfig", "options", "datasource"]},
}
MODEL: dict[str, Any] = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "version", "panels", "templating", "time", "annotations"],
    "properties": {
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 1, "items": PANEL},
        "templating": {
            "type": "object",
            "required": ["list"],
            "properties": {
                "list": {"type": "array", "items": {"type": "object", "required": ["name", "type", "query"]}}
            },
        },
    },
}


def known() -> set[str]:
    """The names of all series."""
    names: set[str] = set()
    for row in metrics_json():
        ends = ("_bucket", "_sum", "_count") if row["kind"] == "histogram" else ("",)
        names |= {row["name"] + end for end in ends}
    return names


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))


@pytest.mark.parametrize("path", [RULES, RULES_TEST, DASHBOARD], ids=lambda path: path.name)
def test_every_referenced_metric_exists(path: Path) -> None:
    named = set(re.findall(r"(?<![:\w])keyrack_[a-z0-9_]+", path.read_text()))
    assert named and named <= known(), named - known()


def test_each_alert_has_a_test_and_documentation() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alerts) == len(set(alerts)) > 10
    tested = RULES_TEST.read_text()
    document = (ROOT / "docs/runbook.md").read_text()
    for alert in alerts:
        assert tested.count(f"alertname: {alert}\n") == 2, (
            f"{alert}: one time at which it is quiet, one at which it fires"
        )
        assert f"| `{alert}` |" in document, alert


def test_the_rules_have_the_thresholds_of_keyrack_status() -> None:
    rules = " ".join(RULES.read_text().split())
    for rule in (
        f"max(keyrack_operations_pending_oldest_age_seconds) > {thresholds.OPERATION_AGE:g} unless",
        f"max(keyrack_deliveries_waiting_oldest_age_seconds) > {thresholds.DELIVERY_AGE:g} ",
        f"max(keyrack_changes_unsequenced_oldest_age_seconds) > {thresholds.CHANGE_AGE:g} ",
        f"max(keyrack_person_changes_undelivered_oldest_age_seconds) > {thresholds.PERSON_CHANGE_AGE:g} ",
        f"keyrack_deliveries_marked_dead_total[{thresholds.DEAD_WITHIN // 3600}h]",
        f"(keyrack_replica_lag_seconds) > {thresholds.REPLICA_LAG:g} ",
        f"/ keyrack_database_connections_max > {thresholds.CONNECTIONS_USED:g} ",
    ):
        assert rule in rules, rule


@promtool
def test_promtool_accepts_the_rules_and_the_example() -> None:
    ran("promtool", "check", "rules", str(RULES))
    ran("promtool", "check", "config", str(DEPLOY / "prometheus/prometheus.yml"))


@promtool
def test_each_alert_fires_at_the_right_time() -> None:
    ran("promtool", "test", "rules", str(RULES_TEST))


@promtool
def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(expressions())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is valid YAML
    ran("promtool", "check", "rules", str(path))


def test_the_dashboard_is_valid() -> None:
    found = dashboard()
    jsonschema.validate(found, MODEL)
    ids = [panel["id"] for panel in found["panels"]]
    assert len(ids) == len(set(ids))
    for one, other in itertools.combinations([panel["gridPos"] for panel in found["panels"]], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)
    variables = {variable["name"] for variable in found["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text())) - {"__rate_interval"}
    assert used <= variables


def test_the_runbook_covers_each_finding() -> None:
    """The alerts that the runbook names exist."""
    source = " ".join(Path(findings.__file__).read_text().split())
    codes = set(re.findall(r'Finding\( ?(?:Severity\.[A-Z]+|level), "([a-z-]+)"', source))
    table = (ROOT / "docs/runbook.md").read_text().partition("## Findings")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert codes == {code for row in rows for code in re.findall(r"`([a-z-]+)`", row[0])} - {"code"}
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    assert {alert for row in rows for alert in re.findall(r"`(Keyrack\w+)`", row[1])} <= alerts
