"""Metrics: instruments, the catalogue of all metrics, and the Prometheus exposition."""
