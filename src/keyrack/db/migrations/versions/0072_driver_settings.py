"""What a customer decides for its drivers: the phone number for help, the place of the car, the rule for extensions."""

revision = "0072"
down_revision = "0071"


def upgrade() -> None:
    pass
