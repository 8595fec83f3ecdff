"""FastAPI with SQLAlchemy 2 (asyncio, asyncpg) and odata-query, used as their documents show."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from odata_query.exceptions import ODataException
from odata_query.sqlalchemy import apply_odata_query
from pydantic import BaseModel, ConfigDict, TypeAdapter
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import selectinload

from peers.models import Car, engine, serve

app = FastAPI()
logging.getLogger("odata_query").setLevel(logging.ERROR)  # it warns about every field with an unknown type
sessions = async_sessionmaker(engine(), expire_on_commit=False)


class Shown(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class CarShown(Shown):
    id: int
    name: str
    description: str | None
    vin: str | None
    licensePlate: str | None
    brand: str | None
    model: str | None


class ProductShown(Shown):
    id: int
    uniqueId: str
    serialNumber: str
    sapNumber: str
    dongleTerminationTimeStamp: datetime | None
    type: str


class AssignmentShown(Shown):
    id: int
    userId: int
    start: datetime
    end: datetime | None


class CarExpanded(CarShown):
    products: list[ProductShown]
    assignments: list[AssignmentShown]


EXPANDED = TypeAdapter(list[CarExpanded])
RELATIONS = {"products": Car.products, "assignments": Car.assignments}


async def session() -> AsyncIterator[AsyncSession]:
    async with sessions() as opened:
        yield opened


def ordered(statement: Select[tuple[Car]], orderby: str) -> Select[tuple[Car]]:
    """Sort rows. odata-query supports only `$filter`, so a team writes the rest."""
    for item in orderby.split(","):
        name, _, direction = item.strip().partition(" ")
        if name not in CarShown.model_fields or direction not in ("", "asc", "desc"):
            raise HTTPException(400, f"Cannot order by {item}.")
        column = getattr(Car, name)
        nullable = Car.__table__.c[column.expression.name].nullable
        if direction == "desc":
            statement = statement.order_by(column.desc().nulls_last() if nullable else column.desc())
        else:
            statement = statement.order_by(column.asc().nulls_first() if nullable else column.asc())
    return statement


@app.exception_handler(ODataException)
async def refused(_: Request, error: ODataException) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 400)


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.get("/cars", response_model=list[CarShown])
async def cars(
    session: Annotated[AsyncSession, Depends(session)],
    customer_id: Annotated[int, Header()],
    filter: Annotated[str | None, Query(alias="$filter")] = None,
    orderby: Annotated[str | None, Query(alias="$orderby")] = None,
    expand: Annotated[str | None, Query(alias="$expand")] = None,
    top: Annotated[int, Query(alias="$top", ge=0, le=1000)] = 1000,
    skip: Annotated[int, Query(alias="$skip", ge=0)] = 0,
) -> object:
    statement = select(Car).where(Car.customer_id == customer_id)
    if filter is not None:
        statement = apply_odata_query(statement, filter)
    if orderby is not None:
        statement = ordered(statement, orderby)
    statement = statement.order_by(Car.id).limit(top)
    if skip:
        statement = statement.offset(skip)
    if expand is None:
        return (await session.scalars(statement)).all()
    for name in expand.split(","):
        if name not in RELATIONS:
            raise HTTPException(400, f"Cannot expand {name}.")
        statement = statement.options(selectinload(RELATIONS[name]))
    found = (await session.scalars(statement)).all()
    return Response(EXPANDED.dump_json(EXPANDED.validate_python(found)), media_type="application/json")


if __name__ == "__main__":
    serve(app)
