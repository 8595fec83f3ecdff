"""Settings of Web Push to the drivers' app."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from keyrack.core.settings.push_services import push_services
from keyrack.core.settings.value_errors import ValueForm


class WebPush(BaseSettings):
    """Settings of Web Push to the drivers' app."""

    section: ClassVar[str] = "push"
    title: ClassVar[str] = "Web Push"

    push: bool = Field(
        default=False,
        description="Send Web Push messages to drivers whose keys have changed. Workers then call the push services of "
        "the drivers' browsers. A message contains no name, car or place.",
    )
    push_contact: Annotated[
        str | None, ValueForm("an address such as mailto:operator@example.com or https://example.com/contact")
    ] = Field(
        default=None,
        pattern=r"^(mailto:[^\s@]+@[^\s@]+|https://\S+)$",
        description="Address under which push services reach the operator. Each message contains it (RFC 8292). If "
        "unset, it is the address of the drivers' app.",
    )
    push_services: str = Field(
        default="fcm.googleapis.com, *.push.services.mozilla.com, web.push.apple.com, *.notify.windows.com",
        description="Hosts of push services, comma-separated, that drivers' browsers may name. `*.` stands for any "
        "subdomain. A subscription at another host gets 400. The addresses of a host must be public, or in "
        "`KEYRACK_WEBHOOK_ALLOWED_NETWORKS`.",
    )
    push_interval_seconds: float = Field(
        default=30.0,
        gt=0,
        le=86_400,
        description="Minimum interval between two messages to one session (seconds). One message reports all changes "
        "of the interval.",
    )

    @field_validator("push_services")
    @classmethod
    def _are_hosts(cls, value: str) -> str:
        push_services(value)
        return value

    @property
    def push_hosts(self) -> tuple[str, ...]:
        """The hosts of `push_services`, each with its port."""
        return push_services(self.push_services)
