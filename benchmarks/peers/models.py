"""Keyrack's tables as SQLAlchemy models for both peers.

Attributes have the names of the API.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

import uvicorn
from sqlalchemy import ForeignKeyConstraint
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Car(Base):
    __tablename__ = "car"

    customer_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column("car_id", primary_key=True)
    name: Mapped[str]
    description: Mapped[str | None]
    vin: Mapped[str | None]
    licensePlate: Mapped[str | None] = mapped_column("license_plate")
    brand: Mapped[str | None]
    model: Mapped[str | None]
    products: Mapped[list[Product]] = relationship(order_by="Product.id", viewonly=True)
    assignments: Mapped[list[Assignment]] = relationship(order_by="Assignment.id", viewonly=True)


class Product(Base):
    __tablename__ = "product"
    __table_args__ = (ForeignKeyConstraint(["customer_id", "car_id"], ["car.customer_id", "car.car_id"]),)

    customer_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column("product_id", primary_key=True)
    uniqueId: Mapped[str] = mapped_column("unique_id")
    serialNumber: Mapped[str] = mapped_column("serial_number")
    sapNumber: Mapped[str] = mapped_column("sap_number")
    dongleTerminationTimeStamp: Mapped[datetime | None] = mapped_column("dongle_terminated_at")
    type: Mapped[str] = mapped_column("kind")
    car_id: Mapped[int | None]


class Assignment(Base):
    __tablename__ = "assignment"
    __table_args__ = (ForeignKeyConstraint(["customer_id", "car_id"], ["car.customer_id", "car.car_id"]),)

    customer_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column("assignment_id", primary_key=True)
    car_id: Mapped[int]
    userId: Mapped[int] = mapped_column("user_id")
    start: Mapped[datetime] = mapped_column("starts_at")
    end: Mapped[datetime | None] = mapped_column("ends_at")


def engine() -> AsyncEngine:
    """The engine for the database on the command line."""
    return create_async_engine(sys.argv[1].replace("postgresql://", "postgresql+asyncpg://", 1), pool_size=10)


def serve(app: Any) -> None:
    """Run `app` like Keyrack's: the same server, event loop and parser."""
    uvicorn.run(
        app, port=int(sys.argv[2]), http="httptools", loop="uvloop", ws="none", access_log=False, log_level="critical"
    )
