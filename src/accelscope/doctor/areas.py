"""What is examined, in order: what everything else rests on comes first."""

from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.doctor import http_files, node, port, settings, visibility
from accelscope.doctor.attribution.area import attribution_area
from accelscope.doctor.check import Area
from accelscope.doctor.node_object.area import node_object_area
from accelscope.doctor.vendors import vendor_area
from accelscope.model import Vendor

_EVERY_NODE = (
    Area("settings", settings.SETTINGS_CHECKS),
    Area("http", (*http_files.FILE_CHECKS, *port.PORT_CHECKS)),
    Area("node", (*node.NODE_CHECKS, *visibility.VISIBILITY_CHECKS)),
)


def areas_for(chosen: AgentSettings) -> tuple[Area, ...]:
    """One area for each vendor that the agent would look for, whose what they found is, and what would be
    written about it."""
    results: dict[Vendor, Result] = {}
    vendors = [vendor_area(Vendor(name), results) for name in chosen.readers]
    return (*_EVERY_NODE, *vendors, attribution_area(results), node_object_area(results))
