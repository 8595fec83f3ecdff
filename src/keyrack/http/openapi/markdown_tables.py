"""Generated tables: docs/endpoints.md and docs/settings.md."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keyrack.api.auth_schemes import AppAuth, DeviceAuth, DrivePageAuth, DriverAuth
from keyrack.api.endpoint import Endpoint
from keyrack.api.permissions import GRANTED, MEANINGS, ROLES, WITHIN_GROUPS, Permission, Role
from keyrack.core.settings import ESSENTIAL, Settings, is_secret, section_titles, sections, variable
from keyrack.http.openapi.error_catalog import refusals

ENDPOINTS_HEAD = """# Endpoints

`keyrack endpoints --markdown` generates this page from the table of endpoints.

- **Paths.** Every path is available below `/v3` and at the root.
- **Headers.** Unless a row names an exception, a request has `<brand>-API-Key`, `Authorization: Bearer ...` and
  `Customer-ID`.
- **Needs.** The permissions that every request needs ([access.md](access.md) has the permissions of each role). The
  permissions in parentheses are needed for parts of a request: for relations, `return=representation`, a kind of a
  batch, or a topic. [OpenAPI](http.md) names the part.
- **Errors.** The last column lists the errors of the endpoint itself. Every request can also get 400 for an invalid
  header, 401, 403 without the permission, 404 for an unknown manager or customer, 414, 500 and 503. A request with a
  body can also get 408, 413 and 415. [errors.md](errors.md) lists all codes.
- **Marks.** *Extension* marks an endpoint that is not in the spec. *Preview* marks an endpoint that
  [may change](releases.md#stable-and-preview); all others are stable. `If-Match` marks a write that supports this
  header; all other writes reject it with 412. Reads have an `ETag`
  ([conditional requests](http.md#conditional-requests))."""

ENDPOINTS_COLUMNS = "| Method | Path | Summary | Needs | Status | Errors |\n|---|---|---|---|---|---|"

SETTINGS_HEAD = """# Settings

`keyrack settings --markdown` generates this page.

- **Sources.** Set a variable in the environment, or a key in the [configuration file](configure.md#configuration-file).
  `keyrack settings` shows each value and its source.
- **Secret files.** A second variable can name a file that contains a secret. The file is read at startup, without
  surrounding white space. The command fails if it cannot read the file, or if both variables are set.
- **Rate limits.** A rate limit is the long-term average. Its burst is the number that is allowed at once; it refills at
  the rate.
- **Old names.** See [Renamed settings](upgrading-to-0.3.md#renamed-settings).

## Settings to know

Most installations need no other settings.

"""

SETTINGS_TUNING = """
## Tuning

The defaults fit most installations. Change one of these settings if its limit is reached in normal operation.
"""

SETTINGS_COLUMNS = "| Variable | Default | Description |\n|---|---|---|\n"
GENERAL = "General"  # heading of the settings above all sections

BY_FILE = " `{}` names a file that contains it."


def endpoints_markdown(endpoints: Iterable[Endpoint[Any]]) -> str:
    """docs/endpoints.md."""
    lines = [ENDPOINTS_HEAD]
    tag = ""
    for endpoint in endpoints:
        if endpoint.tag.name != tag:
            tag = endpoint.tag.name
            lines.append(f"\n## {tag}\n\n{ENDPOINTS_COLUMNS}")
        summary = endpoint.doc.summary + _notes(endpoint)
        needs = _needs(endpoint)
        answers = f"{endpoint.responses.status} | {_refusals(endpoint)}"
        lines.append(f"| {endpoint.method} | `{endpoint.path}` | {summary} | {needs} | {answers} |")
    return "\n".join(lines) + "\n"


def roles_markdown() -> str:
    """The table of roles in docs/access.md.

    It has a row for each permission, a column for each role, and a column for group-limited roles.
    """
    columns = (*Role, "In groups")
    has = (*[GRANTED[role] for role in Role], WITHIN_GROUPS)
    head = "| Permission | What it lets one do | " + " | ".join(columns) + " |\n|---|---|" + ":-:|" * len(columns)
    rows = [
        f"| `{permission}` | {MEANINGS[permission]} | "
        + " | ".join("x" if permission in column else "" for column in has)
        + " |"
        for permission in Permission
    ]
    return "\n".join([head, *rows]) + "\n"


def roles_json() -> list[dict[str, object]]:
    """The roles as data: what `keyrack roles --json` prints."""
    limits = {role: frozenset[Permission]() if role is Role.OWNER else WITHIN_GROUPS for role in Role}
    return [
        {
            "role": str(role),
            "meaning": meaning,
            "permissions": [str(permission) for permission in Permission if permission in GRANTED[role]],
            "inGroups": [str(permission) for permission in Permission if permission in GRANTED[role] & limits[role]],
        }
        for role, meaning in ROLES.items()
    ]


def _needs(endpoint: Endpoint[Any]) -> str:
    """The permissions of every request, and in parentheses those of its parts."""
    always = ", ".join([f"`{permission}`" for permission in endpoint.permissions]) or str(endpoint.auth.permission)
    if endpoint.read is not None and endpoint.read.own_rows is not None:
        always += ", none for the caller's own"
    parts = ", ".join([f"`{permission}`" for permission in dict.fromkeys(endpoint.conditional_permissions.values())])
    return f"{always} ({parts})" if parts else always


def _notes(endpoint: Endpoint[Any]) -> str:
    if isinstance(endpoint.auth, DriverAuth | DrivePageAuth):
        notes = ["pages of `/drive` only"]
    elif isinstance(endpoint.auth, AppAuth | DeviceAuth):
        notes = ["no API key"]
    elif not endpoint.auth.has_api_key:
        notes = ["public"]
    elif not endpoint.auth.has_token:
        notes = ["API key only"]
    elif not endpoint.auth.has_customer:
        notes = ["no `Customer-ID`"]
    else:
        notes = []
    if endpoint.auth.permission in WITHIN_GROUPS and endpoint.auth.has_customer and not endpoint.is_group_scoped:
        notes.append("for the [whole fleet](group-scope.md)")
    if endpoint.concurrency.if_match is not None:
        notes.append("`If-Match`")
    if endpoint.doc.is_extension:
        notes.append("*extension*")
    if endpoint.doc.is_preview:
        notes.append("*preview*")
    return f" ({', '.join(notes)})" if notes else ""


def _refusals(endpoint: Endpoint[Any]) -> str:
    return "<br>".join(
        f"**{status}** " + " / ".join(f"`{reason.code}` {_cell(reason.text)}" for reason in reasons)
        for status, reasons in sorted(endpoint.responses.errors.items())
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def settings_markdown() -> str:
    """docs/settings.md: the essential settings, then all others by section."""
    parts = [SETTINGS_HEAD + _settings_table(ESSENTIAL), SETTINGS_TUNING]
    titles = section_titles(Settings)
    names_by_section: dict[str, list[str]] = {}
    for name, section in sections(Settings).items():
        if name not in ESSENTIAL:
            names_by_section.setdefault(section, []).append(name)
    for section, names in sorted(names_by_section.items(), key=lambda item: titles.get(item[0], GENERAL)):
        note = f"Section of the configuration file: `[{section}]`.\n\n" if section else ""
        parts.append(f"\n### {titles.get(section, GENERAL)}\n\n{note}{_settings_table(names)}")
    return "".join(parts)


def _settings_table(names: Iterable[str]) -> str:
    rows = [f"| `{variable(name)}` | {_default(name)} | {_description(name)} |\n" for name in names]
    return SETTINGS_COLUMNS + "".join(rows)


def _default(name: str) -> str:
    value = Settings.model_fields[name].default
    if value in (None, "", ()) or Settings.model_fields[name].default_factory is not None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _description(name: str) -> str:
    field = Settings.model_fields[name]
    return (field.description or "") + BY_FILE.format(variable(name, by_file=True)) * is_secret(field)


def endpoints_json(endpoints: Iterable[Endpoint[Any]]) -> list[dict[str, object]]:
    """The table as data: what `keyrack endpoints --json` prints."""
    return [
        {
            "method": endpoint.method,
            "path": endpoint.path,
            "tag": endpoint.tag.name,
            "summary": endpoint.doc.summary,
            "needs": str(endpoint.auth.permission),
            "principals": [str(principal.kind) for principal in endpoint.principals],
            "permissions": list(map(str, endpoint.permissions)),
            "conditionalPermissions": {
                part: str(permission) for part, permission in endpoint.conditional_permissions.items()
            },
            "status": endpoint.responses.status,
            "refuses": {
                str(status): [{"code": reason.code, "text": reason.text} for reason in reasons]
                for status, reasons in refusals(endpoint).items()
            },
            "ours": endpoint.doc.is_extension,
            "preview": endpoint.doc.is_preview,
        }
        for endpoint in endpoints
    ]
