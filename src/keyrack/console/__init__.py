"""The web console: pages over the table of endpoints. `SITE` is the table of pages.

Entry: `SITE` for the server process, `static_files` and `map_tiles` for commands.
Must not: contain SQL, or a rule that the API does not have.
"""

from keyrack.console import choices, error_messages, lists, map_tiles, static_files
from keyrack.console.pages import (
    access_history,
    add_forms,
    add_users,
    assignment_requests,
    assignments,
    batch_outcomes,
    board,
    box_enrolments,
    car,
    change,
    clients,
    deliveries,
    emailed_links,
    group,
    group_members,
    help,
    installations,
    key_forms,
    login,
    managers,
    mfa,
    operation,
    overview,
    settings,
    sso,
    tracks,
    user,
    user_devices,
    webhook_forms,
    webhooks,
)
from keyrack.http.page_router import ConsolePage, Site

MODULES = (
    static_files,
    map_tiles,
    login,
    emailed_links,
    settings,
    managers,
    sso,
    clients,
    mfa,
    help,
    choices,
    lists,
    add_forms,
    assignments,
    assignment_requests,
    operation,
    batch_outcomes,
    overview,
    tracks,
    board,
    car,
    change,
    access_history,
    installations,
    box_enrolments,
    webhooks,
    webhook_forms,
    deliveries,
    add_users,
    user,
    user_devices,
    group,
    group_members,
    key_forms,
)
PAGES: tuple[ConsolePage, ...] = tuple(page for module in MODULES for page in module.pages.rows)
SITE = Site(PAGES, error_messages.refused)
