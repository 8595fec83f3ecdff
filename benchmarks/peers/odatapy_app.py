"""odatapy's server through its ASGI adapter.

It uses the push-down of `$filter` and `$orderby` to SQLAlchemy. Its own in-memory processor is "not a production data
layer" (its README), so this is a processor over the database.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from odatapy.data import Entity, EntityCollection, Link, Property
from odatapy.edm.csdl import (
    CsdlAbstractEdmProvider,
    CsdlEntityContainer,
    CsdlEntitySet,
    CsdlEntityType,
    CsdlNavigationProperty,
    CsdlNavigationPropertyBinding,
    CsdlProperty,
    CsdlPropertyRef,
    CsdlSchema,
)
from odatapy.errors import ODataApplicationException
from odatapy.ext.sqlalchemy import apply_top_skip, filter_to_sqlalchemy, orderby_to_sqlalchemy
from odatapy.http.content_type import ContentType
from odatapy.server import OData
from odatapy.server.adapters import ODataASGIApp
from odatapy.server.processor import AsyncEntityCollectionProcessor
from odatapy.server.request import ODataRequest, ODataResponse
from odatapy.server.serializer.factory import serializer_for
from odatapy.server.serializer.json_serializer import EntityCollectionSerializerOptions
from odatapy.server.uri.resource import UriInfo, UriResourceEntitySet
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from peers.models import Assignment, Car, Product, engine, serve

STRING, INT32, MOMENT = "Edm.String", "Edm.Int32", "Edm.DateTimeOffset"
FIELDS = {
    "Car": {
        "id": (Car.id, INT32),
        "name": (Car.name, STRING),
        "description": (Car.description, STRING),
        "vin": (Car.vin, STRING),
        "licensePlate": (Car.licensePlate, STRING),
        "brand": (Car.brand, STRING),
        "model": (Car.model, STRING),
    },
    "Product": {
        "id": (Product.id, INT32),
        "uniqueId": (Product.uniqueId, STRING),
        "serialNumber": (Product.serialNumber, STRING),
        "sapNumber": (Product.sapNumber, STRING),
        "dongleTerminationTimeStamp": (Product.dongleTerminationTimeStamp, MOMENT),
        "type": (Product.type, STRING),
    },
    "Assignment": {
        "id": (Assignment.id, INT32),
        "userId": (Assignment.userId, INT32),
        "start": (Assignment.start, MOMENT),
        "end": (Assignment.end, MOMENT),
    },
}
COLUMNS = {name: {field: column for field, (column, _) in fields.items()} for name, fields in FIELDS.items()}
RELATIONS = {"products": ("Product", Product), "assignments": ("Assignment", Assignment)}


class Provider(CsdlAbstractEdmProvider):
    def get_schemas(self) -> list[CsdlSchema]:
        types = {
            name: CsdlEntityType(
                name=name,
                key=[CsdlPropertyRef(name="id")],
                properties=[
                    CsdlProperty(name=field, type=type, nullable=column.expression.nullable)
                    for field, (column, type) in fields.items()
                ],
            )
            for name, fields in FIELDS.items()
        }
        types["Car"].navigation_properties = [
            CsdlNavigationProperty(name=name, type=f"Fleet.{target}", collection=True)
            for name, (target, _) in RELATIONS.items()
        ]
        bindings = [CsdlNavigationPropertyBinding(path=name, target=name) for name in RELATIONS]
        sets = [CsdlEntitySet(name="cars", type="Fleet.Car", navigation_property_bindings=bindings)]
        sets += [CsdlEntitySet(name=name, type=f"Fleet.{target}") for name, (target, _) in RELATIONS.items()]
        container = CsdlEntityContainer(name="Container", entity_sets=sets)
        return [CsdlSchema(namespace="Fleet", entity_types=list(types.values()), entity_container=container)]


def entity(name: str, row: Any) -> Entity:
    fields = FIELDS[name].items()
    return Entity(
        type=f"Fleet.{name}",
        properties=[Property(name=field, value=row[at], type=type) for at, (field, (_, type)) in enumerate(fields)],
    )


class Cars(AsyncEntityCollectionProcessor):
    def __init__(self) -> None:
        self.engine = engine()

    async def read_entity_collection(
        self, request: ODataRequest, response: ODataResponse, uri_info: UriInfo, ct: ContentType
    ) -> None:
        part = uri_info.resource_parts[0]
        customer = int(request.get_header("Customer-ID") or 0)
        statement = select(*COLUMNS["Car"].values()).where(Car.customer_id == customer)
        try:
            if uri_info.filter is not None:
                statement = statement.where(filter_to_sqlalchemy(uri_info.filter.expression, COLUMNS["Car"]))
            if uri_info.orderby is not None:
                statement = statement.order_by(*orderby_to_sqlalchemy(uri_info.orderby, COLUMNS["Car"]))
        except ValueError as error:  # the push-down cannot translate it
            raise ODataApplicationException(str(error), 501) from error
        statement = apply_top_skip(statement.order_by(Car.id), uri_info.top, uri_info.skip)
        options = EntityCollectionSerializerOptions(context_url=f"{request.raw_base_uri.rstrip('/')}/$metadata#cars")
        async with self.engine.connect() as connection:
            entities = [entity("Car", row) for row in await connection.execute(statement)]
            for item in uri_info.expand.items if uri_info.expand else ():
                await self.expand(connection, customer, item.path[0], entities)
                options.expand[item.path[0]] = EntityCollectionSerializerOptions()
        assert isinstance(part, UriResourceEntitySet)
        edm = self.service_metadata.edm
        serializer = serializer_for(ct, request.negotiated_version)
        body = serializer.entity_collection(edm, part.entity_type, EntityCollection(entities=entities), options)
        response.set_content(body, str(ct))
        response.set_status(200)
        response.set_header("OData-Version", request.negotiated_version or "4.01")

    async def expand(self, connection: AsyncConnection, customer: int, name: str, cars: list[Entity]) -> None:
        """Read all rows of a relation with one statement, like `selectinload`."""
        target, model = RELATIONS[name]
        ids = [car.get_value("id") for car in cars]
        statement = select(*COLUMNS[target].values(), model.car_id).where(model.customer_id == customer)
        found: dict[int, list[Entity]] = defaultdict(list)
        for row in await connection.execute(statement.where(model.car_id.in_(ids)).order_by(model.id)):
            found[row[-1]].append(entity(target, row))
        for car in cars:
            rows = EntityCollection(entities=found[car.get_value("id")])
            car.navigation_links.append(Link(title=name, inline_entity_set=rows))


odata = OData.new_instance()
handler = odata.create_handler(odata.create_service_metadata(Provider()))
handler.register(Cars())
app = ODataASGIApp(handler)


if __name__ == "__main__":
    serve(app)
