"""Lists of the console: a declaration gives the page, the CSV file and the bulk actions."""

from keyrack.console.lists.boxes import BOXES, SERVICES
from keyrack.console.lists.cars import CARS
from keyrack.console.lists.changes import CHANGES
from keyrack.console.lists.deliveries import DELIVERIES
from keyrack.console.lists.groups import GROUPS
from keyrack.console.lists.history import EVENTS, OPERATIONS
from keyrack.console.lists.pages import pages_of
from keyrack.console.lists.people import ASSIGNMENTS, USERS

LISTS = (CARS, USERS, GROUPS, BOXES, SERVICES, EVENTS, OPERATIONS, ASSIGNMENTS, DELIVERIES, CHANGES)
pages = pages_of(*LISTS)
