"""The names of Acme's own exporter."""

from collections.abc import Mapping

from accelscope.metrics.dialects import Dialect, Label, LabelOrder, Section, gauge
from accelscope.model import Vendor


def dialect(_: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="acme",
        exporter="Acme's exporter",
        vendors=(Vendor("acme"),),
        sections=(
            Section(
                LabelOrder(others=(Label("card", lambda view: str(view.device.index)),)),
                (gauge("acme_card_watts", "Power of the card, in watts.", lambda v: v.device.power_watts),),
            ),
        ),
        notes=("Unknown values are left out; the exporter writes -1.",),
    )
