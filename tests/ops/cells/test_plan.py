"""Every table of the schema has its place in a move."""

from __future__ import annotations

from keyrack.ops.cells.plan import ACCOUNTS, EMPTY_AT_SWITCH, GUARDED_ACCOUNTS, OF_CUSTOMER, SHORT_LIVED, SWITCHED
from tests.support.servers import Sql

# Tables without the customer in their key that stay in their cell, with the reason
OF_CELL = {
    "access_change": "processes of the cell read it",
    "alembic_version": "the schema of the database",
    "brand_key": "the catalogue of the installation, which the operator adds to each cell",
    "cell": "the identity of the database",
    "cell_move": "the state of moves in this cell",
    "cell_move_changed_row": "the rows that have changed during a move of this cell",
    "cell_move_kept_row": "the rows that a switch has deleted in this cell",
    "change_server": "the server of the database",
    "compatibility": "the schema of the database",
    "data_key": "secrets are encrypted again with the data key of the target",
    "heartbeat": "processes of the cell",
    "housekeeping": "processes of the cell",
    "key_form": "the catalogue of the installation, which the operator adds to each cell",
    "person_cell": "each cell has its own list of the other ones, which the switch completes",
    "person_change_outbox": "the deliveries of this cell",
    "provider": "has to be in the target before the move",
    "provider_domain": "has to be in the target before the move",
    "push_key": "browsers subscribe again with the key of the target",
    "rate_limit": "full again after the move",
    "revoked_token": "tokens of the source are not valid in the target",
    "signing_key": "tokens of the source are not valid in the target",
    "used_login_state": "a sign-in begins again",
    "write_check": "the server of the database",
}
TABLES = """
select relname from pg_class c where relkind in ('r', 'p') and not relispartition
and relnamespace = current_schema()::regnamespace
"""
DISABLED_OR_ALWAYS = "select tgname from pg_trigger where not tgisinternal and tgenabled <> 'O'"
COLUMNS = "select attname from pg_attribute where attrelid = $1::text::regclass and attnum > 0"


def of_customer(sql: Sql) -> set[str]:
    return {row["name"] for row in sql.rows(OF_CUSTOMER)}


def test_each_table_is_moved_or_has_a_reason_to_stay(sql: Sql) -> None:
    accounts = {account.name for account in ACCOUNTS} | set(SHORT_LIVED)
    every = {row["relname"] for row in sql.rows(TABLES)}
    assert every == of_customer(sql) | accounts | set(OF_CELL)
    assert not of_customer(sql) & (accounts | set(OF_CELL))
    assert not accounts & set(OF_CELL)


def test_switched_tables_have_the_customer_in_their_key(sql: Sql) -> None:
    assert {*SWITCHED, *EMPTY_AT_SWITCH} <= of_customer(sql)


def test_each_account_table_is_guarded(sql: Sql) -> None:
    unguarded = {account.name for account in ACCOUNTS} - set(GUARDED_ACCOUNTS)
    assert unguarded == {"mail", "api_key"}  # no caller of the customer writes these
    for table, column in GUARDED_ACCOUNTS.items():
        assert column in {row["attname"] for row in sql.rows(COLUMNS, table)}


def test_no_trigger_runs_for_replicated_rows(sql: Sql) -> None:
    assert sql.rows(DISABLED_OR_ALWAYS) == []
