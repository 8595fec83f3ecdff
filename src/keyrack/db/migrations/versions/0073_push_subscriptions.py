"""Web Push subscriptions of drivers' sessions."""

revision = "0073"
down_revision = "0072"


def upgrade() -> None:
    pass
