"""People: a subject per customer, and when somebody left."""

from alembic import op

revision = "0008"
down_revision = "0005"

# The subjects of id tokens are made of the seed and the customer. The seed never leaves the database; the column that
# it replaces stood in the tokens of every customer, and was no secret any more.
# `left_at` is when the person last left a customer, whether there are others or not.
PEOPLE = (
    "alter table person drop column subject",
    "alter table person add column seed uuid not null default gen_random_uuid()",
    "alter table person add column left_at timestamptz",
    """
    update person p set left_at = now()
    where not exists (select from customer_user u where u.user_id = p.user_id)
    """,
    "create index person_left on person (left_at) where left_at is not null",
)

# A UUID of version 8 (RFC 9562, section 5.8): the first bits of a digest of the seed, which has 122 random bits, and
# the customer. Both have a fixed length, so no two pairs make the same text.
SUBJECT = (
    """
    create function subject_at(customer integer, seed uuid) returns uuid
    language sql immutable strict parallel safe as $$
      select encode(set_byte(set_byte(h, 6, get_byte(h, 6) & 15 | 128), 8, get_byte(h, 8) & 63 | 128), 'hex')::uuid
      from substr(sha256(uuid_send(seed) || int4send(customer)), 1, 16) h
    $$
    """,
)


def upgrade() -> None:
    for statement in (*PEOPLE, *SUBJECT):
        op.execute(statement)
