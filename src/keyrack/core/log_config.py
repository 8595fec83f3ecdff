"""In charge of the log: one JSON object a line on standard error, ours and that of the libraries alike.

What an exception of the database quotes may be people's data. So an exception is handed to the log as it is
(`error=error`), and shown here without what it quotes.
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
    """Within the block the module cannot be imported."""
    present = sys.modules.get(module)
    sys.modules[module] = None  # pyright: ignore[reportArgumentType] - which is how Python marks it
    try:
        yield
    finally:
        del sys.modules[module]
        if present is not None:
            sys.modules[module] = present


# Its renderer for terminals imports rich where that is installed, which takes 5 MB of each process; the log is JSON
with _absent("rich"):
    import structlog

EVERY = 10.0  # seconds between two lines about the same lasting trouble
MINUTE = 60.0  # seconds between those about what somebody else can bring about as often as they like

# The id of the running request, for each line of the log.
request_id: ContextVar[str] = ContextVar("request_id")


def configure(level: str) -> None:
    """Log from `level` on. Tracebacks carry no local variables: a secret may be among them."""
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
    for name in ("uvicorn", "alembic"):  # they narrate every start and stop
        logging.getLogger(name).setLevel("WARNING")
    logging.getLogger("asyncpg.pool").setLevel("ERROR")  # logs a lost database every other second, with its traceback


def _of_request(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    id = request_id.get(None)
    if id is not None:
        line.setdefault("request_id", id)
    place = here.get()
    if place is not None:
        line["trace_id"] = place.trace
    return line


def _add_details(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the fields of a record of the standard library: `extra={"details": {...}}`.

    The embedded server logs that way, because it runs in commands that load no structlog.
    """
    line.update(getattr(line["_record"], "details", {}))
    return line


class RateLimitedLogger:
    """Warnings about a trouble that lasts or comes often, such as a full disk.

    Writes one line in `every` seconds for each event and kind of error. The field `times` counts what it stands for.
    """

    def __init__(self, name: str, every: float = EVERY) -> None:
        self._log = structlog.get_logger(name)
        self._interval = every
        self._times = Counter[tuple[str, type, Hashable]]()
        self._next_at: dict[tuple[str, type, Hashable], float] = {}

    def warning(
        self, event: str, *, error: BaseException | None = None, throttle_by: Hashable = None, **fields: object
    ) -> None:
        """Write the line, unless one like it was written within `every` seconds.

        Lines are alike if event, kind of error and `throttle_by` are equal.
        """
        key, now = (event, type(error), throttle_by), time.monotonic()
        self._times[key] += 1
        if now >= self._next_at.get(key, 0.0):
            self._next_at[key] = now + self._interval
            if error is not None:
                fields["error"] = error
            self._log.warning(event, times=self._times.pop(key), **fields)


def cause(error: BaseException) -> str:
    """The kind of an exception and what it says, without values that it quotes: the detail of PostgreSQL's errors holds
    keys and rows, the message of a data error (SQLSTATE class 22, also where asyncpg raises it) what was sent."""
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
    """The traceback of an exception, after those of the exceptions that it came from; groups with their members."""
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
