"""In charge of the three things that a check may come to."""

from __future__ import annotations

from keyrack.ops.monitoring.findings import Finding, Level


def right(code: str, text: str) -> Finding:
    """As it should be."""
    return Finding(Level.OK, code, text, "")


def warning(code: str, text: str, action: str) -> Finding:
    """It works, and may not always."""
    return Finding(Level.WARNING, code, text, action)


def fault(code: str, text: str, action: str) -> Finding:
    """It does not work, or is not safe."""
    return Finding(Level.CRITICAL, code, text, action)
