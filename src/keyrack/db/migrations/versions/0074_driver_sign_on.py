"""Single sign-on of drivers."""

revision = "0074"
down_revision = "0073"


def upgrade() -> None:
    pass
