"""The effect of migrations on a running release, judged by their SQL; required from 0020 on."""

from __future__ import annotations

import pytest

from keyrack.db import migration_plan
from keyrack.db.migration_plan import PlannedRevision
from keyrack.db.migrations import RELEASES, STOPPED, module, revisions
from keyrack.db.migrations.safety_check import SafetyChecker

# Statements on a table in use that block its users, or break the previous release
HOLDING = [
    "create index car_x on car (customer_id, name)",
    "create unique index car_x on car (customer_id, name)",
    "alter table car add column x text check (x <> '')",
    "alter table car add column x integer references brand",
    "alter table car add column x text unique",
    "alter table car add column x uuid not null default gen_random_uuid()",
    "alter table car add column x integer generated always as (car_id + 1) stored",
    "alter table car add column x bigserial",
    "alter table car add constraint car_x check (name <> '')",
    "alter table car add constraint car_x foreign key (customer_id, x) references other (customer_id, x)",
    "alter table car add constraint car_x unique (customer_id, name)",
    "alter table car add check (name <> '')",
    "alter table car set unlogged",
    "alter table car set tablespace quick",
    "alter table position attach partition old for values from ('2020-01-01') to ('2020-02-01')",
    "update car set name = 'x'",
    "delete from car where name = 'x'",
    "vacuum full car",
    "reindex table car",
    "lock table car",
]
BREAKING = [
    "alter table car drop column name",
    "alter table car drop name",
    "ALTER TABLE car\n  ADD COLUMN x text, -- and\n  DROP COLUMN name",
    "alter table if exists only car drop constraint car_pkey",
    "alter table car rename column name to label",
    "alter table car rename to vehicle",
    "alter table car alter column name type varchar(10)",
    "alter table car alter name set data type varchar(10)",
    "alter table car alter column name set not null",
    "alter table car alter column name drop default",
    "alter table car add column x text not null",
    "alter table car add x text not null",
    "alter table car set schema other",
    "alter table car disable trigger all",
    "alter table car enable row level security",
    "drop table car",
    "drop view cars",
    "drop function make_history(date)",
    "drop trigger count_events on car",
    "drop index car_name",
    "drop index concurrently car_name",
    "truncate car",
    "alter type kind add value 'x'",
    "alter index car_name rename to car_x",
    "do $$ begin drop table car; end $$",
    "with gone as (delete from car returning 1) select 1",
    "something new",
]
HARMLESS = [
    "create table x (a integer not null, b text check (b <> ''), primary key (a))",
    "create index concurrently car_x on car (customer_id, name)",
    "create unique index concurrently car_x on car (customer_id, name)",
    "create or replace function f() returns void language sql as $$ drop table car; update car set x = 1 $$",
    "create trigger t after insert on car for each row execute function f()",
    "alter table car add column x text",
    "alter table car add column if not exists check_in timestamptz not null default now()",
    "alter table car add column x text not null default 'a, (b) unique'",
    "alter table car add column x text default 'it''s', add column y numeric(10, 2)",
    "alter table car alter column name set default 'x'",
    "alter table car alter column name drop not null",
    "alter table car alter column name set statistics 1000",
    "alter table car add constraint car_x check (name <> '') not valid",
    "alter table car add constraint car_x unique using index car_x",
    "alter table car validate constraint car_y",
    "alter table car set (fillfactor = 50)",
    "insert into settings values (1)",
    "select make_history('2026-01-01')",
    "comment on table car is 'drop table car'",
]


def effects(*script: str, before: tuple[tuple[str, ...], ...] = ()) -> list[bool]:
    """Whether each effect of a migration breaks the release, after the migrations `before`."""
    judge = SafetyChecker()
    for earlier in before:
        judge.effects(earlier)
    return [effect.breaks for effect in judge.effects(script)]


@pytest.mark.parametrize("statement", HOLDING)
def test_blocking_statements_are_detected(statement: str) -> None:
    assert effects(statement) == [False]


@pytest.mark.parametrize("statement", BREAKING)
def test_breaking_statements_are_detected(statement: str) -> None:
    assert effects(statement) == [True]


@pytest.mark.parametrize("statement", HARMLESS)
def test_harmless_statements_are_accepted(statement: str) -> None:
    assert effects(statement) == []


def test_statements_on_a_new_table_are_harmless() -> None:
    make = "create table x (a integer)"
    rest = (
        "create index x_a on x (a)", "alter table x add column b text not null", "update x set a = 1",
        "alter table x add constraint x_a check (a > 0)",
    )  # fmt: skip
    assert effects(make, *rest) == []
    assert len(effects(*rest)) == 4


ADD = "alter table car add constraint car_named check (name is not null) not valid"
VALIDATE = "alter table car validate constraint car_named"
NOT_NULL = "alter table car alter column name set not null"


def test_not_null_is_set_after_a_check_that_was_validated_in_a_revision_of_its_own() -> None:
    assert effects(ADD, VALIDATE) == [False]
    assert effects(NOT_NULL, before=((ADD,), (VALIDATE,))) == []
    assert effects(NOT_NULL, before=((ADD,),)) == [True]
    assert effects(NOT_NULL.replace("name", "vin"), before=((ADD,), (VALIDATE,))) == [True]


FROM_NOW_ON = [revision for revision in revisions() if revision > STOPPED]


@pytest.fixture(scope="module")
def steps() -> dict[str, PlannedRevision]:
    return {step.revision: step for step in migration_plan.steps(revisions())}


@pytest.mark.parametrize("revision", FROM_NOW_ON)
def test_migrations_neither_block_nor_break_a_running_release(steps: dict[str, PlannedRevision], revision: str) -> None:
    """Blocking is always avoidable. Breaking belongs in a later release, which declares since when it is safe."""
    step = steps[revision]
    assert [effect for effect in step.effects if not effect.breaks] == []
    if step.unused_since is None:
        assert [effect for effect in step.effects if effect.breaks] == []
    else:
        assert step.unused_since in RELEASES, "contract in a later release than the one that uses it no more"
        assert step.oldest is not None and step.oldest < revision
    alone = [statement for statement in step.statements if " concurrently " in statement]
    assert not alone or len(step.statements) == 1, "an index that is made concurrently is all that its revision does"


def test_migrations_made_for_a_stop_are_judged_as_such(steps: dict[str, PlannedRevision]) -> None:
    """Real migrations that were made for a stop break and block."""
    assert any(effect.breaks for effect in steps["0011"].effects)
    assert [effect.breaks for effect in steps["0019"].effects] == [False, False]
    assert steps["0012"].effects == []


def test_revisions_and_releases_follow_one_another() -> None:
    known = revisions()
    assert [module(revision).down_revision for revision in known] == [None, *known[:-1]]
    newest = list(RELEASES.values())
    assert newest == sorted(newest) and set(newest) <= set(known)
