"""The app accounts of drivers: credentials, sessions, passkeys and links."""

revision = "0070"
down_revision = "0069"


def upgrade() -> None:
    pass
