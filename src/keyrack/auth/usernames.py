"""User names of managers: lookup by normal form, and conflicts."""

from __future__ import annotations

from keyrack.db.address_forms import AddressTable

# The second index is that of the previous release. It folds letters such as U+0130
UNIQUE_USERNAME = ("manager_address_form", "manager_username_key")
# A process of the previous release knows no conflict, so the manager is disabled as well
MANAGERS = AddressTable("manager", "manager_id", "username", is_disabled_by_conflict=True)
