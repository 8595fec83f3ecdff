"""In charge of the three things that a check may come to."""

from __future__ import annotations

from keyrack.ops.monitoring.findings import Finding, Severity


def ok(code: str, text: str) -> Finding:
    """As it should be."""
    return Finding(Severity.OK, code, text, "")


def warning(code: str, text: str, action: str) -> Finding:
    """It works, and may not always."""
    return Finding(Severity.WARNING, code, text, action)


def failure(code: str, text: str, action: str) -> Finding:
    """It does not work, or is not safe."""
    return Finding(Severity.CRITICAL, code, text, action)
