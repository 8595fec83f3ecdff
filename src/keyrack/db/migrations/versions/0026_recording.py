"""Every change of a resource is recorded, by whom: into the inbox of the log of changes, in the same transaction."""

from alembic import op

from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0026"
down_revision = "0025"

# Who acts is told at the beginning of the transaction: JSON, or the same in base64, which needs no quoting. A session
# of a release that knows nothing of this is told by what every release sets at the start
ACTING = """
create function acting() returns jsonb language plpgsql stable as $$
declare
  told text := current_setting('keyrack.who', true);
begin
  if told is null or told = '' then
    if current_setting('keyrack.brand', true) <> '' and coalesce(current_setting('keyrack.records', true), '') = '' then
      return '{"type": "system", "name": "an older release"}';
    end if;
    raise exception 'Nobody says who changes this.' using errcode = 'KR001',
      hint = 'Begin the transaction, and say: set local keyrack.who to ''{"type": "operator", "name": "..."}''';
  end if;
  return case when left(told, 1) = '{' then told else convert_from(decode(told, 'base64'), 'UTF8') end::jsonb;
end $$
"""
# What a worker does, operations have asked for: it names, before it writes, of each assignment the last one
ON_BEHALF = """
create function acting_on(customer integer, assignment integer) returns jsonb language plpgsql stable as $$
declare
  operations jsonb := nullif(current_setting('keyrack.operations', true), '')::jsonb;
  found jsonb;
begin
  if operations is not null then
    select jsonb_strip_nulls(jsonb_build_object('type', 'system', 'name', 'worker', 'address', o.asked_from,
      'requestId', o.request_id, 'operationId', o.operation_id,
      'onBehalfOf', case when o.asked_by is not null then
        jsonb_build_object('type', 'manager', 'id', o.asked_by::text, 'name', m.username) end)) into found
    from operation o left join manager m on m.manager_id = o.asked_by
    where o.customer_id = customer and o.operation_id = (operations ->> (customer || '/' || assignment))::uuid;
  end if;
  return coalesce(found, acting());
end $$
"""
REFUSE = """
create function refuse_truncate() returns trigger language plpgsql as $$
begin
  raise exception 'The rows of % are not thrown away together: nobody would know which they were.', tg_table_name
    using errcode = 'KR003', hint = 'Delete them.';
end $$
"""


def _time(column: str) -> str:
    return "to_char({r}." + column + " at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


def _groups(item: str, id: str = "") -> str:
    return (
        f"array(select g.group_id from group_{item} g where g.customer_id = {{r}}.customer_id"
        f" and g.{item}_id = {{r}}.{id or item + '_id'} order by 1)"
    )


def _member(item: str) -> AuditedTable:
    return AuditedTable(
        f"group_{item}", "group", "{r}.group_id::text", ("customer_id", "group_id", f"{item}_id"),
        {f"{item}Id": f"{{r}}.{item}_id"}, groups="array[{r}.group_id]", created=f"{item}Added",
        deleted=f"{item}Removed",
    )  # fmt: skip


PERSON = "left join person p on p.user_id = {r}.user_id"
TABLES = (
    AuditedTable(
        "customer", "customer", "{r}.customer_id::text", ("customer_id",),
        {"name": "{r}.name", "historyDays": "{r}.history_days", "keepsPositions": "{r}.keeps_positions"},
    ),
    AuditedTable(
        "car", "car", "{r}.car_id::text", ("customer_id", "car_id"),
        {"name": "{r}.name", "description": "{r}.description", "vin": "{r}.vin", "licensePlate": "{r}.license_plate",
         "brand": "{r}.brand", "model": "{r}.model"},
        groups=_groups("car"),
    ),
    # A person belongs to no customer: it comes and goes by being one's user, and is changed in the log of each
    AuditedTable(
        "customer_user", "user", "{r}.user_id::text", ("customer_id", "user_id"),
        {"emailAddress": "p.email_address", "firstName": "p.first_name", "lastName": "p.last_name", "type": "p.type"},
        groups=_groups("user"), beside=PERSON,
    ),
    AuditedTable(
        "product", "product", "{r}.product_id::text", ("customer_id", "product_id"),
        {"uniqueId": "{r}.unique_id", "serialNumber": "{r}.serial_number", "sapNumber": "{r}.sap_number",
         "type": "{r}.kind", "dongleTerminated": _time("dongle_terminated_at"), "carId": "{r}.car_id"},
        groups=_groups("product"),
        kinds={
            "box.installed": "n.kind = 'Box' and o.car_id is null and n.car_id is not null",
            "box.uninstalled": "n.kind = 'Box' and o.car_id is not null and n.car_id is null",
            "iq.installed": "n.kind = 'IQ' and o.car_id is null and n.car_id is not null",
            "iq.uninstalled": "n.kind = 'IQ' and o.car_id is not null and n.car_id is null",
        },
    ),
    AuditedTable(
        "service", "service", "{r}.service_id::text", ("customer_id", "service_id"),
        {"name": "{r}.name", "productId": "{r}.product_id", "isTerminated": "{r}.is_terminated",
         "terminated": _time("terminated_at"), "terminationCause": "{r}.termination_cause"},
        groups=_groups("service"),
        kinds={
            "service.terminated": "not o.is_terminated and n.is_terminated",
            "service.paired": "o.product_id is null and n.product_id is not null",
            "service.unpaired": "o.product_id is not null and n.product_id is null",
        },
    ),
    AuditedTable(
        "contract", "contract", "{r}.service_id::text", ("customer_id", "service_id"),
        {"orderNumber": "{r}.order_number", "documentNumber": "{r}.document_number",
         "orderPosition": "{r}.order_position", "start": _time("starts_at"), "end": _time("ends_at"),
         "termOfContract": "{r}.term_of_contract", "termOfNotice": "{r}.term_of_notice",
         "unitOfNotice": "{r}.unit_of_notice"},
        groups=_groups("service"),
    ),
    AuditedTable(
        "assignment", "assignment", "{r}.assignment_id::text", ("customer_id", "assignment_id"),
        {"carId": "{r}.car_id", "userId": "{r}.user_id", "start": _time("starts_at"), "end": _time("ends_at"),
         "lifetime": "{r}.lifetime", "renewableAfter": "{r}.renewable_after"},
        groups="array(select group_id from group_car where customer_id = {r}.customer_id and car_id = {r}.car_id"
        " union select group_id from group_user where customer_id = {r}.customer_id and user_id = {r}.user_id"
        " order by 1)",
        who="acting_on({r}.customer_id, {r}.assignment_id)",
    ),
    AuditedTable(
        "fleet_group", "group", "{r}.group_id::text", ("customer_id", "group_id"), {"name": "{r}.name"},
        groups="array[{r}.group_id]",
    ),
    *map(_member, ("car", "product", "service", "user")),
    AuditedTable(
        "webhook", "webhook", "{r}.webhook_id::text", ("customer_id", "webhook_id"),
        {"url": "{r}.url", "kinds": "{r}.kinds", "isEnabled": "{r}.is_enabled", "disabledReason": "{r}.disabled_reason",
         "oldSigningSecretUntil": _time("old_signing_secret_until")},
        {"secret": "{r}.secret", "signingSecret": "{r}.signing_secret"},
    ),
    AuditedTable(
        "device_key", "deviceKey", "{r}.device_key_id::text", ("customer_id", "device_key_id"),
        {"name": "{r}.name", "productId": "{r}.product_id", "isGateway": "{r}.is_gateway", "scopes": "{r}.scopes",
         "revoked": _time("revoked_at")},
        {"key": "{r}.hash"},
    ),
    AuditedTable(
        "sdk_key", "sdkKey", "{r}.sdk_key_id::text", ("customer_id", "sdk_key_id"),
        {"name": "{r}.name", "revoked": _time("revoked_at")}, {"key": "{r}.hash"},
    ),
    AuditedTable(
        "manager_customer", "manager", "{r}.manager_id::text", ("customer_id", "manager_id"),
        {"username": "p.username"}, created="granted", deleted="withdrawn",
        beside="left join manager p on p.manager_id = {r}.manager_id",
    ),
    # The installation's own
    AuditedTable(
        "manager", "manager", "{r}.manager_id::text", ("manager_id",),
        {"username": "{r}.username", "isDisabled": "{r}.is_disabled", "signOuts": "{r}.sign_outs"},
        {"password": "{r}.password_hash"}, customer="0",
    ),
    AuditedTable(
        "api_key", "apiKey", "{r}.api_key_id::text", ("api_key_id",),
        {"name": "{r}.name", "expires": _time("expires_at"), "revoked": _time("revoked_at")}, {"key": "{r}.hash"},
        customer="0",
    ),
    AuditedTable(
        "signing_key", "signingKey", "{r}.kid", ("kid",), {"revoked": _time("revoked_at")},
        {"privateKey": "{r}.private_key"}, customer="0",
    ),
    AuditedTable(
        "brand_key", "brandKey", "{r}.brand_key_id::text", ("brand_key_id",),
        {"brand": "{r}.brand", "boxName": "{r}.box_name", "boxSapNumber": "{r}.box_sap_number",
         "keyFormId": "{r}.key_form_id"},
        customer="0",
    ),
    AuditedTable(
        "key_form", "keyForm", "{r}.key_form_id::text", ("key_form_id",),
        {"name": "{r}.name", "imageUrl": "{r}.image_url", "drawing": "{r}.drawing"}, customer="0",
    ),
)  # fmt: skip

# A person comes and goes by being a customer's user, which is recorded of that row
OF_PERSON = AuditedTable(
    "person", "user", "{r}.user_id::text", ("user_id",),
    {"emailAddress": "{r}.email_address", "firstName": "{r}.first_name", "lastName": "{r}.last_name",
     "type": "{r}.type"},
    {"password": "{r}.password_hash"}, customer="c.customer_id",
    groups="array(select g.group_id from group_user g where g.customer_id = c.customer_id"
    " and g.user_id = {r}.user_id order by 1)",
    beside="join customer_user c on c.user_id = {r}.user_id", events=("update",),
)  # fmt: skip


def upgrade() -> None:
    for statement in (ACTING, ON_BEHALF, REFUSE):
        op.execute(statement.strip())
    for table in (*TABLES, OF_PERSON):
        for statement in table.statements:
            op.execute(statement)
