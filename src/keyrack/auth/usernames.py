"""User names of managers: which manager has the normal form of a name, and which two have the same one."""

from __future__ import annotations

from keyrack.db.address_forms import AddressTable

# The second index is that of the release before: it folds letters such as U+0130
UNIQUE_USERNAME = ("manager_address_form", "manager_username_key")
# A process of the release before knows no conflict, so the manager is disabled as well
MANAGERS = AddressTable("manager", "manager_id", "username", is_disabled_by_conflict=True)
