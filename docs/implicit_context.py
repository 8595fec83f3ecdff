"""Write the tables of docs/implicit-context.md from the code: `make docs`."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from keyrack.db.session_settings import OWN

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/keyrack"
PAGE = ROOT / "docs/implicit-context.md"
MARKED = re.compile(r"(<!-- (\w+): docs/implicit_context.py -->\n).*?(<!-- /\2 -->\n)", re.DOTALL)

STATE = SOURCE / "http/request_state.py"
FIELD = re.compile(r"^    (\w+): [^#\n]+  # (.+)$", re.MULTILINE)
VARIABLE = re.compile(r"(?:^# (.+)\n)?^(\w+): ContextVar\[", re.MULTILINE)
QUOTE = r"\\?'"
# In a transaction, and as a parameter in `session_settings.session`. The hint of a trigger is neither
SET_SETTING = re.compile(
    rf"set_config\({QUOTE}(keyrack\.\w+){QUOTE}|set local (keyrack\.\w+) to '{{|^ {{8}}\"(keyrack\.\w+)\": ",
    re.MULTILINE,
)
READ_SETTING = re.compile(rf"current_setting\({QUOTE}(keyrack\.\w+){QUOTE}")


class Uses(NamedTuple):
    """The modules that set and read one value."""

    set_by: set[str]
    read_by: set[str]


def _module(path: Path) -> str:
    return f"`{path.relative_to(SOURCE).with_suffix('')}`"


def _sources() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, path.read_text()


def state_fields() -> dict[str, str]:
    """The fields of `RequestState` with their purposes. Raises `ValueError` for one without."""
    (body,) = (
        node
        for node in ast.parse(STATE.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == "RequestState"
    )
    names = [
        node.target.id for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    purposes = dict(FIELD.findall(STATE.read_text()))
    if missing := [name for name in names if name not in purposes]:
        raise ValueError(f"fields of RequestState without a purpose behind them: {missing}")
    return {name: purposes[name] for name in names}


def state_uses() -> Mapping[str, Uses]:
    """The modules of `http` that set and read each field."""
    uses: dict[str, Uses] = defaultdict(lambda: Uses(set(), set()))
    for path, text in _sources():
        if not path.is_relative_to(SOURCE / "http"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and _is_state(node.value):
                uses[node.attr][0 if isinstance(node.ctx, ast.Store) else 1].add(_module(path))
    return uses


def _is_state(node: ast.expr) -> bool:
    """`state`, `call.state`, `self._state` or `request_state(scope)`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "request_state"
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in ("state", "_state")


def variables() -> dict[tuple[str, str], str]:
    """Module and name of each context variable, with its purpose. Raises `ValueError` for one without a comment."""
    purposes = {(_module(path), name): purpose for path, text in _sources() for purpose, name in VARIABLE.findall(text)}
    declared = sum(text.count(" ContextVar(") + text.count("=ContextVar(") for _, text in _sources())
    if missing := [name for name, purpose in purposes.items() if not purpose]:
        raise ValueError(f"context variables without a comment of one line above: {missing}")
    if declared != len(purposes):
        raise ValueError("a context variable is not declared as `name: ContextVar[...] = ContextVar(...)`")
    return purposes


def variable_uses() -> Mapping[str, Uses]:
    """The modules that set and read each context variable."""
    uses: dict[str, Uses] = defaultdict(lambda: Uses(set(), set()))
    declared = {name: module for module, name in variables()}
    for path, text in _sources():
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Attribute) and node.attr in ("set", "get")):
                continue
            name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            is_known = name in declared and (_module(path) == declared[name] or _imports(text, declared[name], name))
            if is_known:
                uses[name][0 if node.attr == "set" else 1].add(_module(path))
    return uses


def _imports(text: str, module: str, name: str) -> bool:
    """Whether a module imports the name, or the module that has it."""
    package, _, last = f"keyrack/{module.strip('`')}".replace("/", ".").rpartition(".")
    return bool(
        re.search(rf"from {package}\.{last} import [^)]*\b{name}\b|from {package} import [^)\n]*\b{last}\b", text)
    )


def setting_uses() -> Mapping[str, Uses]:
    """The modules that set and read each session setting of Keyrack; migrations have the triggers."""
    uses: dict[str, Uses] = defaultdict(lambda: Uses(set(), set()))
    for path, text in _sources():
        for match in SET_SETTING.finditer(text):
            uses[next(filter(None, match.groups()))].set_by.add(_module(path))
        for name in READ_SETTING.findall(text):
            uses[name].read_by.add(_module(path))
    return uses


def _table(head: str, rows: Iterator[tuple[str, str, Uses]]) -> str:
    lines = [f"| {head} | Purpose | Set by | Read by |", "|---|---|---|---|"]
    for name, purpose, (set_by, read_by) in rows:
        lines.append(f"| {name} | {purpose} | {', '.join(sorted(set_by))} | {', '.join(sorted(read_by))} |")
    return "\n".join(lines) + "\n"


def tables() -> dict[str, str]:
    """The tables of the page by the names of their markers."""
    in_state, in_variables, in_settings = state_uses(), variable_uses(), setting_uses()
    return {
        "state": _table("Field", ((f"`{name}`", text, in_state[name]) for name, text in state_fields().items())),
        "variables": _table(
            "Variable",
            ((f"`{name}` of {module}", text, in_variables[name]) for (module, name), text in variables().items()),
        ),
        "settings": _table("Setting", ((f"`{name}`", text, in_settings[name]) for name, text in OWN.items())),
    }


def page() -> str:
    """The page with the current tables."""
    current = tables()
    return MARKED.sub(lambda match: match[1] + current[match[2]] + match[3], PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
