"""Each vendor's plan. A new vendor is one line here and its module."""

from accelscope.capture.plan import Plan
from accelscope.capture.plans import amd, ascend, furiosa, nvidia

PLANS: tuple[Plan, ...] = (nvidia.PLAN, amd.PLAN, ascend.PLAN, furiosa.PLAN)
