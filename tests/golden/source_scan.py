"""Log events and shared names of the source, by a static scan.

The result does not depend on the names of modules and classes.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LEVELS = frozenset(("debug", "info", "warning", "error", "exception", "critical"))
FACTORIES = frozenset(("get_logger", "getLogger"))
LOGGER_NAME = re.compile(r"keyrack(\.[a-z_]+)+")

NOTIFY = re.compile(r"\b(?:notify|listen)\s+(keyrack_\w+)", re.IGNORECASE)
NOTIFY_CALL = re.compile(r"\bpg_notify\(\s*'(\w+)'")
CHANNEL = re.compile(r"keyrack_[a-z]+")
LOCK_CALL = re.compile(r"\bpg_\w*advisory\w*\((?:[^()]|\([^()]*\))*\)")
# The block of numbers that advisory locks are taken from
LOCK_NUMBER = re.compile(r"\b72609\d\d\b")
SESSION_SETTING = re.compile(
    r"\b(current_setting|set_config)\(\s*'(keyrack\.\w+)'|\b(set)\s+(?:local\s+)?(keyrack\.\w+)"
)
CONNECTION_NAME = re.compile(r"keyrack [a-z]+")
CONNECTION_NAME_IN_SQL = re.compile(r"'(keyrack(?: [a-z]+)?)'")
# They look like names of connections
COMMANDS = frozenset(("keyrack login",))


@dataclass(frozen=True, order=True, slots=True)
class LogEvent:
    """A call of a logger. `{}` stands for a part of the text that is computed, `**` for computed fields."""

    text: str
    level: str
    logger: str
    fields: str

    def __str__(self) -> str:
        return "\t".join((self.level, self.text, self.logger, self.fields)).rstrip()


@dataclass(frozen=True, slots=True)
class Scan:
    """Log events and constants of the modules, without docstrings."""

    events: frozenset[LogEvent]
    constants: frozenset[str | int]


@functools.cache
def scan_source(source: Path) -> Scan:
    """Scan all modules below the directory.

    No syntax tree is kept: the garbage collector would visit half a million nodes again and again.
    """
    events, constants = set[LogEvent](), set[str | int]()
    for file in source.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        events.update(_find_events(nodes))
        constants.update(_find_constants(nodes))
    return Scan(frozenset(events), frozenset(constants))


def _find_loggers(nodes: list[ast.AST]) -> dict[str, str]:
    """The loggers that a module assigns: variable or attribute, and the logger's name."""
    loggers: dict[str, str] = {}
    for node in nodes:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        function, arguments = node.value.func, node.value.args
        is_factory = isinstance(function, ast.Attribute) and function.attr in FACTORIES
        argument = arguments[0] if arguments else None
        text = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""
        if is_factory or LOGGER_NAME.fullmatch(text):
            loggers |= {ast.unparse(target): text or "{}" for target in node.targets}
    return loggers


def _find_events(nodes: list[ast.AST]) -> Iterator[LogEvent]:
    loggers, texts = _find_loggers(nodes), _find_texts(nodes)
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
            continue
        receiver = ast.unparse(node.func.value)
        first = node.args[0] if node.args else None
        text = _read_text(first, texts)
        if text is not None or (receiver in loggers and first is not None):
            fields = " ".join(itertools.chain.from_iterable(map(_read_fields, node.keywords)))
            yield LogEvent(text or "{}", node.func.attr, loggers.get(receiver, "{}"), fields)


def _read_fields(keyword: ast.keyword) -> list[str]:
    """The fields of the line that a keyword of the call adds."""
    match keyword:
        case ast.keyword(arg="throttle_by"):
            return []
        case ast.keyword(arg="extra", value=ast.Dict(values=[ast.Dict(keys=keys)])):  # of the standard library
            return [ast.literal_eval(key) for key in keys if key is not None]
        case _:
            return [keyword.arg or "**"]


def _find_texts(nodes: list[ast.AST]) -> dict[str, str]:
    """The texts that a module assigns to a variable."""
    variables: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and (text := _read_text(node.value, {})) is not None:
            variables |= {target.id: text for target in node.targets if isinstance(target, ast.Name)}
    return variables


def _read_text(node: ast.expr | None, texts: dict[str, str]) -> str | None:
    """The text of an expression, or None if the expression is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_read_text(value, texts) or "{}" for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = _read_text(left, texts), _read_text(right, texts)
            return None if parts == (None, None) else "".join(part or "{}" for part in parts)
        case ast.Name(id=name):
            return texts.get(name)
        case _:
            return None


def find_shared_names(constants: Iterable[str | int], metrics: Iterable[str]) -> dict[str, list[str]]:
    """Names that processes of two releases share, by kind."""
    metric_names = set(metrics)
    names: dict[str, set[str]] = {
        "notification channels in SQL": set(),
        "notification channels in Python": set(),
        "advisory lock numbers": set(),
        "advisory lock calls": set(),
        "session settings that SQL reads": set(),
        "session settings that SQL sets": set(),
        "names of database connections": set(),
    }
    for value in constants:
        if isinstance(value, int):
            names["advisory lock numbers"].update(LOCK_NUMBER.findall(str(value)))
            continue
        names["notification channels in SQL"].update(NOTIFY.findall(value) + NOTIFY_CALL.findall(value))
        if CHANNEL.fullmatch(value) and value not in metric_names:
            names["notification channels in Python"].add(value)
        names["advisory lock numbers"].update(LOCK_NUMBER.findall(value))
        names["advisory lock calls"].update(" ".join(call.split()) for call in LOCK_CALL.findall(value))
        for function, name, _, name_in_set in SESSION_SETTING.findall(value):
            verb = "reads" if function == "current_setting" else "sets"
            names[f"session settings that SQL {verb}"].add(name or name_in_set)
        if CONNECTION_NAME.fullmatch(value) and value not in COMMANDS:
            names["names of database connections"].add(value)
        if "application_name" in value:
            names["names of database connections"].update(CONNECTION_NAME_IN_SQL.findall(value))
    return {kind: sorted(values) for kind, values in names.items()}


def _find_constants(nodes: list[ast.AST]) -> Iterator[str | int]:
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings and isinstance(node.value, str | int):
            yield node.value
