"""In charge of what each operation is called and does: its id, which reads like a function, and its description."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.endpoint import Endpoint
from keyrack.http.openapi.operations.extensions import OWN

ASYNCHRONOUS = (
    " The answer comes at once: `Operation-Id` names the operation, and its outcome is told by webhook and by"
    " `GET /operations/{operationId}`."
)
ENDS = " Its assignments end asynchronously, each with an outcome of its own."
LINK = " What is in a group already is refused with 409, so nothing is there twice."

# Of the spec's endpoints, in its order: method and path -> the id, and what it does
SPEC: Mapping[str, tuple[str, str]] = {
    "POST /oauth2/token": (
        "getAccessToken",
        "The password grant of OAuth 2.0 (RFC 6749, section 4.3): user name and password of a manager, as a form; then"
        " `expires_in` is in seconds, as text. Or the grant of machine clients (section 4.4), with the client's id and"
        " secret in the header `Authorization` or in the form; then it is a number, and `scope` has what the token is"
        " for. There is no refresh token: ask again shortly before the hour is over.",
    ),
    "GET /customers": (
        "listCustomers",
        "Those for which the caller may act. The `id` is text here; the header `Customer-ID` of the other calls takes"
        " the same number.",
    ),
    "GET /cars": (
        "listCars",
        "Every car of the customer, by id unless `$orderby` says otherwise. `$expand` adds products, assignments and"
        " groups.",
    ),
    "GET /cars/{carId}": ("getCar", "The master data of one car; `$expand` adds what belongs to it."),
    "GET /cars/{carId}/products": (
        "listProductsOfCar",
        "What is installed in the car: at most one key box and one IQ unit. 404 if nothing is.",
    ),
    "GET /cars/{carId}/telemetry": (
        "getCarTelemetry",
        "The newest value that the IQ unit in the car has told of each member, whenever that was."
        " `carDataReadTime` is the time of the newest reading. 404 until the unit has told something.",
    ),
    "GET /cars/{carId}/location": (
        "getCarLocation",
        "Where the IQ unit in the car said that it is, and the odometer. All members are null until it has told them.",
    ),
    "GET /cars/{carId}/location/{searchDate}": (
        "getCarLocationAt",
        "The position and the odometer reading that lie nearest to the date, before or after it, each with its own"
        " time. They reach as far back as history is kept: `GET /retention` says how far.",
    ),
    "GET /cars/{carId}/assignments": (
        "listAssignmentsOfCar",
        "Past, in force and to come; `$filter=end eq null or end gt now()` leaves out those that are over.",
    ),
    "GET /cars/{carId}/events": (
        "listEventsOfCar",
        "When the car was opened and closed, by whom. There may be many, so limit them, as with `$top`: a list that is"
        " too long comes in pages, and the header `Link` leads to the next one.",
    ),
    "PUT /cars": ("createCar", "A new car of the customer. Only its name is needed, which need not be unique."),
    "PATCH /cars/{carId}": (
        "updateCar",
        "A JSON Patch (RFC 6902) of `remove` and `replace`, applied whole or not at all. What is removed is null"
        " afterwards; the name cannot be removed.",
    ),
    "DELETE /cars/{carId}": (
        "deleteCar",
        "Its products are uninstalled, and its links to groups go. Its events stay readable by id." + ENDS,
    ),
    "GET /users": ("listUsers", "Everybody who is assigned to the customer, `Normal` and `Anonymous`."),
    "GET /users/{userId}": ("getUser", "One user of the customer; `$expand` adds assignments and groups."),
    "GET /users/{userId}/assignments": (
        "listAssignmentsOfUser",
        "Which cars the user may open, and when: past, in force and to come.",
    ),
    "PUT /users": (
        "createUser",
        "A new person, in this customer. `Anonymous` ones cannot sign in to the app; a `Normal` one without a password"
        " gets one that is made here and shown in this answer alone. Who exists already is taken in with"
        " `PUT /users/assignments/customers`.",
    ),
    "PUT /users/assignments/customers": (
        "addUserToCustomer",
        "Takes a person who exists into the customer, named by exactly one of `emailAddress` and `userId`. By number"
        " only people of the manager's own customers are found.",
    ),
    "DELETE /users/assignments/customers": (
        "removeUserFromCustomer",
        "Ends the membership of a user, who is named by exactly one of `emailAddress` and `userId`. The user's"
        " assignments in this customer end asynchronously, each with an outcome of its own.",
    ),
    "GET /assignments/{assignmentId}": (
        "getAssignment",
        "One assignment, once it was applied: what was only asked for is an operation until then.",
    ),
    "PUT /assignments": (
        "createAssignment",
        "Lets a user open a car from `start` to `end`; without an `end` for as long as nobody ends it. The car needs a"
        " key box with a service when the assignment is applied." + ASYNCHRONOUS,
    ),
    "PATCH /assignments/{assignmentId}": (
        "updateAssignment",
        "A JSON Patch (RFC 6902) of `remove` and `replace`, applied whole or not at all. Numbers may come as text. What"
        " is removed gets its default: no end, a lifetime of a week, `renewableAfter` half of it." + ASYNCHRONOUS,
    ),
    "DELETE /assignments/{assignmentId}": ("deleteAssignment", "Ends the access at once." + ASYNCHRONOUS),
    "GET /groups": ("listGroups", "Every group of the customer; `$expand` adds what is in it."),
    "GET /groups/{groupId}/cars": ("listCarsOfGroup", "The cars that are in the group; an empty list if none is."),
    "GET /groups/{groupId}/users": ("listUsersOfGroup", "The users that are in the group; an empty list if none is."),
    "GET /groups/{groupId}/services": (
        "listServicesOfGroup",
        "The services that are in the group, without their products; an empty list if none is.",
    ),
    "GET /groups/{groupId}/products": (
        "listProductsOfGroup",
        "The products that are in the group; an empty list if none is.",
    ),
    "PUT /groups": ("createGroup", "A new, empty group. Its name is unique within the customer."),
    "PATCH /groups/{groupId}": ("updateGroup", "A JSON Patch (RFC 6902) that replaces the name."),
    "DELETE /groups/{groupId}": ("deleteGroup", "Only an empty group can go: take out what is in it first."),
    "PUT /groups/{groupId}/cars": ("addCarToGroup", "A car may be in several groups." + LINK),
    "DELETE /groups/{groupId}/cars/{carId}": ("removeCarFromGroup", "The car itself stays as it is."),
    "PUT /groups/{groupId}/users": ("addUserToGroup", "A user may be in several groups." + LINK),
    "DELETE /groups/{groupId}/users/{userId}": ("removeUserFromGroup", "The user stays in the customer."),
    "PUT /groups/{groupId}/services": ("addServiceToGroup", "A service may be in several groups." + LINK),
    "DELETE /groups/{groupId}/services/{serviceId}": ("removeServiceFromGroup", "The service itself stays as it is."),
    "PUT /groups/{groupId}/products": ("addProductToGroup", "A product may be in several groups." + LINK),
    "DELETE /groups/{groupId}/products/{productId}": ("removeProductFromGroup", "The product stays where it is."),
    "GET /products": (
        "listProducts",
        "The key boxes and IQ units of the customer. Products are added by the operator of the server.",
    ),
    "GET /products/{productId}": ("getProduct", "One product, with the time at which its dongle was terminated."),
    "GET /products/{productId}/services": ("getServiceOfProduct", "The one service that the product is paired with."),
    "GET /products/{productId}/cars": ("getCarOfProduct", "The one car that the product is installed in."),
    "GET /services": (
        "listServices",
        "The contracts of the customer's boxes, each with the product that it is paired with. Services are added by the"
        " operator of the server.",
    ),
    "GET /services/{serviceId}": ("getService", "One service; `$expand` adds its product, contract and groups."),
    "GET /services/{serviceId}/products": ("getProductOfService", "The one product that the service is paired with."),
    "GET /services/{serviceId}/contracts": ("getContractOfService", "What was agreed upon: order, term and notice."),
    "PUT /installations": (
        "installProduct",
        "Puts a product, named by any of `productId`, `serialNumber` and `uniqueId`, into a car. It must have a"
        " service, be in no car, and a car takes one product of each type.",
    ),
    "DELETE /installations": (
        "uninstallProduct",
        "Takes a product out of the car that it is in. With a key box all assignments of the car end asynchronously,"
        " each with an outcome of its own.",
    ),
    "PUT /pairings": (
        "pairService",
        "Links a service to a product, named by any of `productId`, `serialNumber` and `uniqueId`. A product can be"
        " installed, and its car assigned, as long as it has a service that is not terminated.",
    ),
    "DELETE /pairings": ("unpairService", "Takes the link between a service and its product away."),
    "GET /brands": ("listBrands", "Names for `GET /brands/{brand}/keys`. It is the same for all customers."),
    "GET /brands/{brand}/keys": (
        "listKeysOfBrand",
        "Which keys there are for cars of a brand, and which key box fits each. The name is compared without case.",
    ),
    "POST /sdk/token": (
        "getSdkToken",
        "An id token (JWT, RS256) by which the app's SDK proves who its user is. Its keys are at"
        " `/.well-known/jwks.json`; subject and audience are good for this customer alone. The SDK key is a secret of"
        " the customer, so call this from a server, not from the app.",
    ),
    "GET /events/{eventId}": ("getEvent", "One event, whether its car and user are still there or not."),
    "PUT /events": (
        "createEvent",
        "Records one opening or closing. `dateTime` is kept as it was sent, `utcDateTime` to the microsecond. What"
        " happened offline is better delivered with `POST /ingest/events`, which may be repeated.",
    ),
}
TAGS: Mapping[str, str] = {
    "Authentication": "Access tokens, and the documents that verify tokens.",
    "Customers": "The tenants for which the caller may act: everything else belongs to one of them.",
    "Cars": "Cars, and what is asked of one car: products, assignments, telemetry, location and events.",
    "Users": "People who may open cars. A person may be in several customers.",
    "Assignments": "Who may open which car, and when. Changes are asynchronous: their outcome is told by webhook.",
    "Groups": "Named sets of cars, users, services and products.",
    "Products": "Key boxes, which hold a car's key, and IQ units, which tell telemetry and location.",
    "Services": "The services of products, and the contracts behind them.",
    "Installations": "Which product is in which car.",
    "Pairings": "Which service is for which product.",
    "Keyfob": "Which key fits a car brand, and which key box fits the key.",
    "App SDK": "Id tokens for the SDK of an app, and what the app of a user calls with them: phones, keys and logs.",
    "Boxes": "Boxes that open without a network: enrolled, and told which keys are revoked.",
    "Events": "When cars were opened and closed, and by whom.",
    "Changes": "What has happened to the customer's data, and who did it.",
    "Access": "Who could open a car, now and at any time that is kept.",
    "Ingest": "What units, boxes and apps deliver, with a device key.",
    "Positions": "Where all cars are, where one was, and what it told over a time.",
    "Operations": "What became of asynchronous requests.",
    "Batches": "Many changes in one request.",
    "Webhooks": "Where outcomes and changes are sent, what was sent, and sending it again.",
    "Managers": "People who act for the customer, and who is invited to.",
    "Second factor": "Passkeys, codes and recovery codes of the manager who calls, and which roles need one.",
    "Clients": "Programs that call in their own name, and their secrets.",
    "Live updates": "What has changed, as it happens.",
    "Me": "The manager who calls: preferences, password and sessions.",
    "Documents": "What this server is, and this interface as documents.",
    "Health": "Whether the server lives, and whether it is ready.",
}


def operation_id(endpoint: Endpoint) -> str:
    """The name of the operation. It stays as it is: programs that are made from the document call it."""
    return _told(endpoint)[0]


def description(endpoint: Endpoint) -> str:
    """What the operation does, beyond its summary."""
    return _told(endpoint)[1]


def _told(endpoint: Endpoint) -> tuple[str, str]:
    return (OWN if endpoint.ours else SPEC)[f"{endpoint.method} {endpoint.path}"]
