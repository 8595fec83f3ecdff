"""Early rejection of requests whose car is booked.

It takes no lock, so it is a courtesy. The operation decides when it is applied (`assignments.rules`). The look compares
a request with applied bookings and with pending operations. A booking that another pending operation moves or ends does
not count, because only the order of operations says what becomes of it.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.error_codes import ErrorCode

CAR_BOOKED = ErrorCode(
    "assignment-conflict",
    "The car has another assignment in this time range.",
    "Choose another time or car; `conflicts` lists the other assignments. Only exclusive assignments, and batches with"
    " `refuse`, are rejected for it.",
)
OLD_WORKER = ErrorCode(
    "old-worker-running",
    "A process of an older release is running. It would not keep exclusive assignments apart.",
    "Stop the processes of the older release, and send the request again a minute later.",
)

# A process of an older release applies operations without the rule. Its heartbeat has no revision
IS_OLD_PROCESS_RUNNING: LiteralString = (
    "exists (select from heartbeat h where h.beat_at > now() - interval '60 seconds'"
    " and (h.revision is null or h.revision < '0078'))"
)
# Parts of a statement with the parameters `:customer` and `:assignment_id`. The thousand newest pending requests
PENDING_REQUESTS: LiteralString = """
pending as materialized (
  select p.operation_id, p.kind, p.assignment_id, p.request, coalesce((p.request->>'userId')::integer, p.user_id)
      as user_id,
    coalesce((p.request->>'carId')::integer, p.car_id) as car_id, a.is_exclusive, a.booking_gap,
    coalesce((p.request->>'start')::timestamptz, a.starts_at) as starts_at,
    case when p.request ? 'end' then (p.request->>'end')::timestamptz else a.ends_at end as ends_at,
    p.assignment_id is null or count(*) over (partition by p.assignment_id) = 1 as is_only
  from (
    select * from operation o where o.customer_id = :customer and o.cause = 'Request' and o.state = 'Pending'
    order by o.seq desc limit 1000) p
  left join assignment a on a.customer_id = :customer and a.assignment_id = p.assignment_id
)
"""
# The checks of one request `w`:
# - `is_early`: it is exclusive, and a process of an older release runs.
# - `is_denied`: it is shared, and the customer enforces exclusive bookings.
# - `conflicts`: the bookings that it conflicts with.
LOOK: LiteralString = (
    """
select
  coalesce((w.request->>'exclusive')::boolean, false) and """
    + IS_OLD_PROCESS_RUNNING
    + """ as is_early,
  o.bookings_enforced and d.by_default and not e.is_exclusive and not w.may_share and (
    w.assignment_id is null or w.request ? 'exclusive' or c.car_id <> w.its_car) as is_denied,
  case when e.is_exclusive and n.starts_at < coalesce(n.ends_at, 'infinity') and not (
    coalesce(w.its_exclusive, false) and c.car_id = w.its_car and n.starts_at >= w.its_start and t.until <= t.its_until)
  then (
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
        'assignmentId', b.assignment_id, 'operationId', b.operation_id, 'userId', b.user_id,
        'start', to_char(b.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))
      || jsonb_build_object('end', to_char(b.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) order by b.starts_at)
    from (
      (select b.assignment_id, null::uuid as operation_id, a.user_id, b.starts_at, a.ends_at
       from booking b join assignment a on a.customer_id = b.customer_id and a.assignment_id = b.assignment_id
       where b.customer_id = :customer and b.car_id = c.car_id and b.starts_at < t.until
         and b.starts_at >= coalesce((
           select max(f.starts_at) from booking f where f.customer_id = :customer and f.car_id = c.car_id
           and f.starts_at <= n.starts_at), '-infinity')
         and b.blocked_until > n.starts_at and b.assignment_id is distinct from w.assignment_id
         and not exists (select from unnest(:assignment_id::integer[]) i (id) where i.id = b.assignment_id)
         and not exists (select from pending q where q.assignment_id = b.assignment_id)
       order by b.starts_at limit 10)
      union all
      (select q.assignment_id, q.operation_id, q.user_id, q.starts_at, q.ends_at
       from pending q
       where q.car_id = c.car_id and q.kind <> 'DeleteAssignment' and q.starts_at < t.until
         and q.starts_at < coalesce(q.ends_at, 'infinity')
         and coalesce(q.ends_at + make_interval(secs =>
           case when q.is_exclusive then q.booking_gap else d.gap end), 'infinity') > n.starts_at
         and case when q.assignment_id is null or q.request ? 'exclusive'
             then coalesce((q.request->>'exclusive')::boolean, d.by_default) else q.is_exclusive end
         and q.is_only and (q.assignment_id is null
           or not exists (select from unnest(:assignment_id::integer[]) i (id) where i.id = q.assignment_id))
       order by q.starts_at limit 10)
      order by starts_at limit 10) b) end as conflicts
from car c join customer o on o.customer_id = c.customer_id
cross join lateral (
  select coalesce(c.bookings, o.bookings) = 'exclusive' as by_default, coalesce(c.booking_gap, o.booking_gap) as gap) d
cross join lateral (
  select coalesce((w.request->>'start')::timestamptz, w.its_start) as starts_at,
    case when w.request ? 'end' then (w.request->>'end')::timestamptz else w.its_end end as ends_at) n
cross join lateral (
  select case when w.assignment_id is null or w.request ? 'exclusive'
    then coalesce((w.request->>'exclusive')::boolean, d.by_default) else w.its_exclusive end as is_exclusive) e
cross join lateral (
  select coalesce(
      n.ends_at + make_interval(secs => case when w.its_exclusive then w.its_gap else d.gap end), 'infinity') as until,
    coalesce(w.its_end + make_interval(secs => w.its_gap), 'infinity') as its_until) t
where c.customer_id = :customer and c.car_id = coalesce(w.car_id, w.its_car) and w.kind <> 'DeleteAssignment'
"""
)
