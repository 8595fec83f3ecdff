"""Rules of the layout that import-linter cannot express. The contracts of the layers are in pyproject.toml.

Each rule reads the source, and reports all offenders at once.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from keyrack.http.routes import ALL

SOURCE = Path(__file__).parent.parent / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((SOURCE / "keyrack").rglob("*.py"))
}

# The packages or sub-packages that may import a library
LIBRARIES = {
    "aiohttp": {"auth.sso", "core.api_client", "webhooks"},
    "aiomqtt": {"telemetry"},
    "aiosmtplib": {"auth.mail", "cli.commands"},
    "alembic": {"db"},
    "argon2": {"auth"},
    "babel": {"console"},
    "cryptography": {"api", "auth", "changelog", "db.encryption", "drivers", "offline_keys"},
    "email_validator": {"core"},
    "falcon": {"http"},
    "fastapi": set[str](),
    "httptools": set[str](),
    "idna": {"core"},
    "jinja2": {"console"},
    "joserfc": {"auth"},
    "opentelemetry": {"core.tracing"},
    "prometheus_client": {"core.metrics"},
    "segno": {"console"},
    "sqlalchemy": {"db"},
    "standardwebhooks": {"simulator", "webhooks"},
    "starlette": set[str](),
    "typer": {"cli"},
    "uvicorn": {"http", "ops.monitoring", "server"},
    "uvloop": {"server"},
    "webauthn": {"auth"},
}
# Imports of handlers and their modules beside Keyrack and the standard library
OF_HANDLERS = {"asyncpg", "cryptography", "pydantic", "pydantic_core", "structlog"}

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@functools.cache
def imports(module: str) -> tuple[tuple[str, str], ...]:
    """The imports of a module at any place: the imported module, and the name in it or ""."""
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole, "") if whole in MODULES else (str(node.module), alias.name)


def package(module: str) -> str:
    """The package of a module: "api" for keyrack.api.odata.parser."""
    return module.split(".")[1] if "." in module else ""


def test_modules_have_no_import_cycles() -> None:
    graph = {module: {target for target, _ in imports(module) if target in MODULES} for module in MODULES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_private_names_stay_in_their_package() -> None:
    offenders = [
        f"{module} imports {name} of {target}"
        for module in MODULES
        for target, name in imports(module)
        if target in MODULES and package(target) != package(module) and name.startswith("_") and name != "__version__"
    ]
    assert not offenders, "\n".join(offenders)


def test_no_module_has_the_name_of_an_object_in_its_package() -> None:
    """Importing the module would replace that function or class in the package."""
    offenders: list[str] = []
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            names = {name for target, name in imports(module) if target not in (module, f"{module}.{name}")}
            names |= {node.name for node in ast.parse(path.read_text()).body if isinstance(node, DEFINITIONS)}
            offenders += [f"{module}.{name}" for name in names if f"{module}.{name}" in MODULES]
    assert not offenders, "\n".join(offenders)


def test_a_library_is_imported_only_where_it_belongs() -> None:
    offenders = [
        f"{module} imports {library}"
        for module in MODULES
        for library in {target.split(".")[0] for target, _ in imports(module)} & LIBRARIES.keys()
        if not any(f"{module}.".startswith(f"keyrack.{allowed}.") for allowed in LIBRARIES[library])
    ]
    assert not offenders, "\n".join(offenders)


def test_a_handler_imports_no_http_library() -> None:
    allowed = {"__future__", "keyrack", *OF_HANDLERS, *sys.stdlib_module_names}
    offenders = [
        f"{module} imports {target}"
        for module in MODULES
        if package(module) == "api" or ".endpoints" in module
        for target, _ in imports(module)
        if target.split(".")[0] not in allowed
    ]
    assert not offenders, "\n".join(offenders)


def test_the_console_calls_existing_endpoints() -> None:
    rows = {(row.method, row.path) for row in ALL}
    offenders: list[str] = []
    for module in (module for module in MODULES if package(module) == "console"):
        source = MODULES[module].read_text()
        if "LiteralString" in source:
            offenders.append(f"{module} contains SQL")
        offenders += [f"{module} calls {call}, which is no endpoint" for call in set(calls(source)) - rows]
    assert not offenders, "\n".join(offenders)


def calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield method and path of each call of a page."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
            method, path = node.args[:2]
            if isinstance(method, ast.Constant) and isinstance(path, ast.Constant):
                yield str(method.value), str(path.value)


def test_a_worker_does_not_import_the_http_stack() -> None:
    """Workers, supervisors and commands import heavy modules on demand to start fast."""
    heavy = {"alembic", "sqlalchemy", "falcon", "jinja2", "opentelemetry", "keyrack.console", "keyrack.http.routes"}
    heavy |= {"rich"}  # structlog imports it unless `keyrack.core.log_config` is its first importer
    script = "import keyrack.cli.commands.run, keyrack.server.supervisor, sys; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    loaded = set(output.split())
    assert "keyrack.server.worker" in loaded
    assert not heavy & loaded


def test_the_source_consists_of_packages() -> None:
    """import-linter checks the packages: `exhaustive` reports one without a layer."""
    files = {path.name for path in (SOURCE / "keyrack").iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_a_package_states_its_purpose_in_five_lines() -> None:
    for path in (SOURCE / "keyrack").glob("*/__init__.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        lines = docstring.splitlines()
        assert 4 <= len(lines) <= 5, path
        assert [line.partition(":")[0] for line in lines[2:]] == ["Entry", "Must not"], path


TESTS = Path(__file__).parent
# Files of the tests that may sleep, with reasons. A fixed sleep depends on the speed of the machine. `eventually` waits
# for a condition, and an `asyncio.Event` for another task
SLEEPERS = {
    "abuse/flood.py": "the pace of attacking clients",
    "abuse/test_full_disk.py": "the pace of writers",
    "abuse/test_slow_clients.py": "the pace of readings",
    "abuse/test_webhooks.py": "the pace of requests, and a slow receiver",
    "assignments/histories.py": "random pauses of clients",
    "assignments/test_exclusive_faults.py": "random times of faults, and looks at an operation",
    "assignments/test_faults.py": "random times of faults, and looks at other processes",
    "assignments/test_histories.py": "the pace of killings, and looks at other processes",
    "changelog/feed_readers.py": "the pace of readers",
    "changelog/outbox.py": "random pauses of writers, and looks at the database",
    "core/test_background_tasks.py": "a look at the log of another task, and an `end` that is not immediate",
    "db/embedded/test_concurrent_commands.py": "random times of kills",
    "db/embedded/test_log.py": "a look at the statement of another process",
    "db/embedded/test_postgres.py": "looks at other processes, and time in which nothing may happen",
    "fleet/endpoints/test_concurrent_writes.py": "a client obeys `Retry-After`",
    "http/test_load_shedding.py": "a loop that counts ticks",
    "http/test_slow_clients.py": "a client that reads slowly",
    "ops/test_housekeeping.py": "a step that takes some time beside others",
    "recordings/installation.py": "looks at the database until a value is there",
    "recordings/session.py": "looks at the receiver until a condition holds",
    "telemetry/endpoints/test_events.py": "the pace of a reader",
    "webhooks/delivery_database.py": "looks at the database until a value is there",
    "webhooks/test_delivery.py": "receivers that do not answer",
}


def sleeps(path: Path) -> bool:
    """Whether the file sleeps, or waits in a browser, for a fixed time. `sleep(0)` only lets other tasks run."""
    text = path.read_text()
    if "sleep" not in text and "wait_for_timeout" not in text:  # most files, whose parsing takes two seconds
        return False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            seconds = node.args[0]
            is_zero = isinstance(seconds, ast.Constant) and seconds.value == 0
            of = node.func.value
            is_sleep = node.func.attr == "sleep" and isinstance(of, ast.Name) and of.id in ("asyncio", "time")
            if (is_sleep and not is_zero) or node.func.attr == "wait_for_timeout":
                return True
    return False


RAISED = re.compile(r"\bRaises ((?:`[\w.]+`(?:, and |, | and | or )?)+)")
TEMPLATE_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)


def test_docstrings_name_exceptions_that_exist() -> None:
    sources = {module: path.read_text() for module, path in MODULES.items() if ".versions." not in module}
    defined = set(re.findall(r"^\s*class (\w+)", "\n".join(sources.values()), re.MULTILINE)) | {*dir(builtins)}
    unknown = {
        f"{module}: {name}"
        for module, text in sources.items()
        for names in RAISED.findall(text)
        for name in re.findall(r"(?<=`)\w+(?=`)", names)  # the name of a library's exception follows its module
        if name not in defined
        and not re.search(rf"\b(?:import|from)\b[^\n]*\b{name}\b|^    {name},$", text, re.MULTILINE)
    }
    assert unknown == set()


def test_comments_of_templates_name_modules_that_exist() -> None:
    templates = SOURCE / "keyrack" / "console" / "templates"
    unknown = {
        f"{template.relative_to(templates)}: {module}"
        for template in templates.rglob("*.html")
        for comment in TEMPLATE_COMMENT.findall(template.read_text())
        for module in re.findall(r"[\w/]+\.py\b", comment)
        if not (SOURCE / "keyrack" / module).exists()
    }
    assert unknown == set()


def test_tests_wait_for_conditions_and_not_for_fixed_times() -> None:
    files = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
    found = {name for name, path in files.items() if not name.startswith("support/") and sleeps(path)}
    assert found == set(SLEEPERS), "wait for the condition, or give the reason in SLEEPERS; remove entries without use"


def test_tests_read_complete_lines_of_logs() -> None:
    """The last line may be incomplete: `tests.support.log_lines` ignores it."""
    pattern = re.compile(r"json\.loads\b.*\b\w*(?:log|errors|said)\.read_text\(\)\.splitlines\(\)")
    offenders = [
        f"{path.relative_to(TESTS)}:{number}"
        for path in sorted(TESTS.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not offenders, "use log_events: " + ", ".join(offenders)


def test_tests_name_the_events_that_they_capture() -> None:
    """Servers of other tests log in the same process. A count of all lines, or the first one, may include theirs."""
    pattern = re.compile(r"\bcapture_logs\b")
    offenders = [
        path.relative_to(TESTS).as_posix() for path in sorted(TESTS.rglob("*.py")) if pattern.search(path.read_text())
    ]
    assert offenders == ["support/log_lines.py"], "use captured_events"


# Tests of short timeouts, and programs of users
OWN_LIMITS = {"support/people.py", "http/test_nginx.py", "abuse", "clients", "clients_python"}


def test_tests_do_not_use_the_default_timeout_of_httpx() -> None:
    """httpx times out after five seconds, and a busy machine takes longer: `tests.support.people` has clients."""
    pattern = re.compile(r"\bhttpx\.(?:AsyncClient|Client|get|post|put|delete|patch|head|options|request|stream)\(")
    names = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("*.py")) if pattern.search(path.read_text())]
    offenders = {name.as_posix() for name in names if name.parts[0] not in OWN_LIMITS}
    assert offenders - OWN_LIMITS == set(), "use http_client or fetch"
