"""The log: one JSON object per line on standard error, also for libraries.

An exception of the database may quote personal data. So callers pass the exception itself (`error=error`), and this
module writes it without the quoted values.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Generator, Hashable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import asyncpg

from keyrack.core.tracing.context import here


@contextmanager
def _absent(module: str) -> Generator[None]:
    """Prevent the import of a module within the block."""
    present = sys.modules.get(module)
    sys.modules[module] = None  # pyright: ignore[reportArgumentType] - None blocks the import
    try:
        yield
    finally:
        del sys.modules[module]
        if present is not None:
            sys.modules[module] = present


# structlog imports rich if it is installed, which takes 5 MB in each process. The log is JSON and does not need it
with _absent("rich"):
    import structlog

# Until `configure`. The results of a command are on standard output, where another program may read them
structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))

EVERY = 10.0  # interval between lines about the same lasting problem (seconds)
MINUTE = 60.0  # interval between lines about events that clients can cause (seconds)

# The id of the running request, added to each line.
request_id: ContextVar[str] = ContextVar("request_id")


def configure(level: str) -> None:
    """Configure the log. Tracebacks omit local variables, because they may contain secrets."""
    shared: list[Any] = [
        _of_request,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_traceback),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_add_details, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=_as_text),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "alembic"):  # they log every start and stop
        logging.getLogger(name).setLevel("WARNING")
    logging.getLogger("asyncpg.pool").setLevel(
        "ERROR"
    )  # logs an unreachable database every other second, with a traceback


def _of_request(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    id = request_id.get(None)
    if id is not None:
        line.setdefault("request_id", id)
    place = here.get()
    if place is not None:
        line["trace_id"] = place.trace
    return line


def _add_details(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the fields of a standard library record: `extra={"details": {...}}`.

    The embedded server logs that way, because it runs in commands that load no structlog.
    """
    line.update(getattr(line["_record"], "details", {}))
    return line


class RateLimitedLogger:
    """Warnings about lasting or frequent problems, such as a full disk.

    Writes one line per `every` seconds for each event and type of error. The field `times` counts the occurrences.
    """

    def __init__(self, name: str, every: float = EVERY) -> None:
        self._log = structlog.get_logger(name)
        self._interval = every
        self._times = Counter[tuple[str, type, Hashable]]()
        self._next_at: dict[tuple[str, type, Hashable], float] = {}

    def warning(
        self, event: str, *, error: BaseException | None = None, throttle_by: Hashable = None, **fields: object
    ) -> None:
        """Write the line, unless an equal one was written within `every` seconds.

        Lines are equal if event, type of error and `throttle_by` are equal.
        """
        key, now = (event, type(error), throttle_by), time.monotonic()
        self._times[key] += 1
        if now >= self._next_at.get(key, 0.0):
            self._next_at[key] = now + self._interval
            if error is not None:
                fields["error"] = error
            self._log.warning(event, times=self._times.pop(key), **fields)


def cause(error: BaseException) -> str:
    """The type and message of an exception, without quoted values.

    The detail of a PostgreSQL error contains keys and rows. The message of a data error (SQLSTATE class 22, also from
    asyncpg) contains the value that was sent.
    """
    kind = type(error).__name__
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        message = "" if state.startswith("22") else f": {error.args[0] if error.args else ''}"
        return f"{kind} ({state}){message}"
    return f"{kind}: {error}"


def _as_text(value: object) -> str:
    return cause(value) if isinstance(value, BaseException) else str(value)


def _traceback(exc_info: Any) -> str:
    return "".join(_traceback_lines(exc_info[1], set()))


def _traceback_lines(error: BaseException, before: set[int]) -> Iterator[str]:
    """The traceback of an exception, after those of its causes; groups with their members."""
    before.add(id(error))
    source = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if source is not None and id(source) not in before:
        yield from _traceback_lines(source, before)
        yield "\n\nThen:\n\n"
    yield from traceback.format_tb(error.__traceback__)
    yield cause(error)
    members: Sequence[BaseException] = getattr(error, "exceptions", ())
    for member in members:
        yield "\n\nAmong them:\n\n"
        yield from _traceback_lines(member, before)
