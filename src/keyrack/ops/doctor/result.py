"""The three results of a check: ok, warning and failure."""

from __future__ import annotations

from keyrack.ops.monitoring.findings import Finding, Severity


def ok(code: str, text: str) -> Finding:
    """A passed check."""
    return Finding(Severity.OK, code, text, "")


def warning(code: str, text: str, action: str) -> Finding:
    """A problem that may cause failures later."""
    return Finding(Severity.WARNING, code, text, action)


def failure(code: str, text: str, action: str) -> Finding:
    """A problem that causes failures or is unsafe."""
    return Finding(Severity.CRITICAL, code, text, action)
