"""The log: one JSON object per line, without personal data."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

ALICE = "alice.fisher@example.org"


def logged(script: str, *arguments: str) -> list[Any]:
    """The lines of a process with Keyrack's log."""
    begin = "import sys, logging, structlog; from keyrack.core import log_config as logs; logs.configure('info')\n"
    ran = subprocess.run([sys.executable, "-c", begin + script, *arguments], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stderr.splitlines()]


FAIL = """
import asyncio, asyncpg
log = structlog.get_logger("tests")
STATEMENTS = [
    "insert into person (email_address, type) select $1, 'Anonymous' from generate_series(1, 2)",
    "insert into person (email_address, type) values ($1, 'No such type')",
    "insert into person (email_address) values ($1)",
    "select $1::text::integer",
    "select ($1::text)::jsonb",
]
async def run(dsn, quoted):
    sql = await asyncpg.connect(dsn)
    for statement in STATEMENTS:
        try:
            try:
                await sql.execute(statement, quoted)
            except asyncpg.PostgresError as error:
                assert quoted[:5] in f"{error} {error.as_dict()}", (statement, str(error))
                log.warning("as it is", error=error)
                raise RuntimeError("after it") from error
        except RuntimeError as error:
            log.exception("with its traceback")
            logging.getLogger("a library").error("of a library", exc_info=ExceptionGroup("several", [error]))
    try:
        await sql.execute("select $1::integer", quoted)
    except asyncpg.DataError as error:
        assert quoted in str(error)
        log.warning("not even sent", error=error)
    await sql.close()
asyncio.run(run(*sys.argv[1:]))
"""


def test_an_error_of_the_database_has_no_personal_data(dsn: str) -> None:
    """B10: neither its line nor its traceback has the parameters, also if another exception came from it."""
    lines = logged(FAIL, dsn, ALICE)
    assert ALICE[:5] not in json.dumps(lines)
    kinds = ["UniqueViolation", "CheckViolation", "NotNullViolation", "InvalidTextRepresentation"]
    for kind, said, trace, group in zip([*kinds, kinds[-1]], lines[0::3], lines[1::3], lines[2::3], strict=False):
        assert (said["event"], trace["event"], group["event"]) == ("as it is", "with its traceback", "of a library")
        assert said["error"].startswith(f"{kind}Error (2")
        for line in (trace, group):
            assert f"{kind}Error (2" in line["exception"] and "RuntimeError: after it" in line["exception"]
            assert 'File "<string>", line' in line["exception"]
    assert len(lines) == 16
    assert lines[-1]["error"] == "DataError (22000)"


LAST = """
import time
seldom = logs.RateLimitedLogger("tests")
for _ in range(100):
    seldom.warning("cannot write", error=OSError("full"))
seldom.warning("cannot write", error=ValueError("other"))
later = time.monotonic() + logs.EVERY
time.monotonic = lambda: later
seldom.warning("cannot write", error=OSError("full"))
"""


def test_a_lasting_problem_is_logged_once_per_interval() -> None:
    """B12: the line has the count since the last one. Another problem has its own line."""
    lines = [(line["error"], line["times"]) for line in logged(LAST)]
    assert lines == [("OSError: full", 1), ("ValueError: other", 1), ("OSError: full", 100)]


THROTTLED_BY = """
seldom = logs.RateLimitedLogger("tests")
for key in (3, 3, 4):
    seldom.warning("api key rejected", key=key, throttle_by=key)
"""


def test_a_throttled_event_has_a_line_for_each_value_of_its_key() -> None:
    assert [(line["event"], line["key"]) for line in logged(THROTTLED_BY)] == [
        ("api key rejected", 3),
        ("api key rejected", 4),
    ]


DETAILS = """
error = OSError("full")
logging.getLogger("keyrack.postgres").warning("postgresql exited", extra={"details": {"status": 1, "error": error}})
"""


def test_details_of_a_standard_logger_are_fields() -> None:
    (line,) = logged(DETAILS)
    assert (line["event"], line["status"], line["error"]) == ("postgresql exited", 1, "OSError: full")


UNREACHABLE_DATABASE = """
from keyrack.db.throttled_log import ThrottledLogger
for name in ("keyrack.change_notifier", "keyrack.mail"):
    ThrottledLogger(name).warning("interrupted, retrying", error=ConnectionRefusedError(111, "refused"))
ThrottledLogger("keyrack.mail").warning("interrupted, retrying", error=TimeoutError("late"))
ThrottledLogger("keyrack.mail").warning("interrupted, retrying", error=RuntimeError("other"))
"""


def test_an_unreachable_database_has_one_line_for_all_components() -> None:
    """Its `component` is the last segment of the first logger's name."""
    first, *others = logged(UNREACHABLE_DATABASE)
    assert (first["event"], first["logger"]) == ("database unreachable", "keyrack.database")
    assert first["component"] == "change_notifier" and "refused" in first["cause"]
    assert [(line["event"], line["logger"]) for line in others][-1:] == [("interrupted, retrying", "keyrack.mail")]
    assert all("component" not in line for line in others if line["logger"] == "keyrack.mail")


BROKEN = """
import asyncio
from keyrack.console import SITE
from keyrack.http import app, pipeline
from keyrack.core.settings import Settings
async def fail(*_):
    await asyncio.gather(asyncio.create_task(aside()))
    raise RuntimeError("a fault of ours")
async def aside():
    logging.getLogger("a library").warning("aside")
pipeline.RequestPipeline.serve = fail
async def ask(edge, headers):
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        if message["type"] == "http.response.start":
            told = dict(message["headers"])
            structlog.get_logger("tests").info("answered", status=message["status"], id=told[b"x-request-id"].decode())
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": "/cars",
        "raw_path": b"/cars", "query_string": b"", "headers": headers, "client": ("::1", 1), "server": ("::1", 2),
        "scheme": "http", "root_path": "",
    }
    await edge(scope, receive, send)
async def main():
    edge = app.create_app(Settings(), "", SITE)
    await asyncio.gather(*[ask(edge, [(b"x-request-id", b"id-%d" % number)]) for number in range(3)])
asyncio.run(main())
structlog.get_logger("tests").info("outside")
"""


def test_every_line_of_a_request_carries_its_id() -> None:
    """So do lines of libraries, of its tasks, and of an internal error.

    Other requests run at the same time.
    """
    *lines, outside = logged(BROKEN)
    assert "request_id" not in outside
    for number in range(3):
        own = [line for line in lines if line["request_id"] == f"id-{number}"]
        assert {line["event"] for line in own} == {"aside", "internal error", "answered"}
        assert [(line["status"], line["id"]) for line in own if "status" in line] == [(500, f"id-{number}")]
    assert len(lines) == 9


WANTED = """
from keyrack.http.access_log import always_logged
logs.configure("error")
structlog.get_logger("keyrack.requests").info("request")
always_logged()
structlog.get_logger("keyrack.requests").info("request", number=2)
structlog.get_logger("keyrack.other").info("other")
"""


def test_who_wants_these_lines_gets_them_at_any_level() -> None:
    assert [found.get("number") for found in logged(WANTED)] == [2]


def test_a_command_that_configures_no_log_writes_it_to_standard_error() -> None:
    """Another program may read the results on standard output."""
    script = "import structlog, keyrack.core.log_config; structlog.get_logger('tests').warning('an event')"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (ran.stdout, "an event" in ran.stderr) == ("", True)
