"""What the fleet knows now: columns, replaced node by node, and what changed in them."""

from accelscope.fleet.store.changes import Change, Subscription
from accelscope.fleet.store.events import Event, EventKind, EventLog, Severity
from accelscope.fleet.store.fleet_store import FleetStore
from accelscope.fleet.store.node_object import NodeObject
from accelscope.fleet.store.query import Condition, Operator, Query, QueryError, Selection, Sort, Value
from accelscope.fleet.store.table import NOWHERE, Table

__all__ = [
    "NOWHERE",
    "Change",
    "Condition",
    "Event",
    "EventKind",
    "EventLog",
    "FleetStore",
    "NodeObject",
    "Operator",
    "Query",
    "QueryError",
    "Selection",
    "Severity",
    "Sort",
    "Subscription",
    "Table",
    "Value",
]
