"""Outputs of acme-smi: which accelscope parse reads and which accelscope capture records."""

from accelscope.capture.plan import Command, Plan, Tree
from accelscope.model import Vendor
from accelscope.parsing import OutputFormat

from . import ACME_SMI
from .parse import parse

SOURCES = (
    OutputFormat(
        "acme-smi-query", "acme-smi query: cards with their processes", lambda text, _fields: parse(text)
    ),
)

PLAN = Plan(
    vendor=Vendor("acme"),
    commands=(
        Command("acme-smi-query", ACME_SMI, ("query",)),
        Command("acme-smi-ps", ACME_SMI, ("ps",)),
    ),
    trees=(Tree("acme-devices", "dev", ("acme*",), ()),),
)
