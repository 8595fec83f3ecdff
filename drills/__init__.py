"""Drills: an operator's programs under failures, on a cluster that they start themselves."""
