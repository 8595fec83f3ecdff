"""Requests of drivers: to extend an assignment, to end it early, and to return the car."""

revision = "0071"
down_revision = "0070"


def upgrade() -> None:
    pass
