"""Statements that insert waiting rows, for these and other tests."""

from __future__ import annotations

CUSTOMER = "insert into customer (name) values ('c') returning customer_id"
WEBHOOK = """
insert into webhook (customer_id, url, kinds, signing_secret, is_enabled)
values ($1, 'https://example.org', '{}', '', $2) returning webhook_id
"""
DELIVERY = """
insert into delivery (customer_id, webhook_id, message_id, type, lane, payload, state, created_at)
values ($1, $2, gen_random_uuid(), 'assignment.created', $3, '{}', $4, now() - make_interval(secs => $5))
"""
OPERATION = """
insert into operation (customer_id, kind, cause, car_id, request, checksum, state, requested_at)
values ($1, 'CreateAssignment', $2, 1, '{}', '', $3, now() - make_interval(secs => $4))
"""
WORKER = """
insert into heartbeat (heartbeat_id, role, host, pid, version, beat_at)
values (gen_random_uuid(), 'work', 'elsewhere', 1, '0.2.0', now() - make_interval(secs => $1))
"""
CHANGE = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, after, at)
values (1, 'car.created', 'car', '1', '{}', '{}', now() - make_interval(secs => $1))
"""
