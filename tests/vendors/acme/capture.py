"""What `accelscope capture` saves of Acme cards."""

from accelscope.capture.plan import Command, Plan, Tree
from accelscope.model import Vendor

from . import ACME_SMI

PLAN = Plan(
    vendor=Vendor("acme"),
    commands=(
        Command("acme-smi-query", ACME_SMI, ("query",)),
        Command("acme-smi-ps", ACME_SMI, ("ps",)),
    ),
    trees=(Tree("acme-devices", "dev", ("acme*",), ()),),
)
