"""The state of a running installation for operators: backlog, status, metrics of all processes."""
