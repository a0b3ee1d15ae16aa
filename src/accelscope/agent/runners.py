"""What the settings mean for readers: one runner for each vendor that is looked for."""

import threading

from accelscope.agent.runner import Runner
from accelscope.agent.settings import AgentSettings
from accelscope.model import Vendor
from accelscope.readers.registry import open_reader


def make_runners(settings: AgentSettings, changed: threading.Condition) -> list[Runner]:
    """`changed` is the condition that they share."""
    return [
        Runner(
            open_reader(Vendor(name), settings.reader_options),
            deadlines=settings.deadlines,
            changed=changed,
            expected=settings.expected_devices,
        )
        for name in settings.readers
    ]
