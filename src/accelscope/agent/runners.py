"""What the settings mean for readers: one runner for each vendor that is looked for."""

import threading
from dataclasses import replace

from accelscope.agent.runner import Runner
from accelscope.agent.settings import AgentSettings
from accelscope.model import Vendor
from accelscope.vendors.common.contract import open_reader


def make_runners(
    settings: AgentSettings, changed: threading.Condition, *, once: bool = False
) -> list[Runner]:
    """`changed` is the condition that they share; `once` as for one of them."""
    return [make_runner(Vendor(name), settings, changed, once=once) for name in settings.readers]


def make_runner(
    vendor: Vendor, settings: AgentSettings, changed: threading.Condition, *, once: bool = False
) -> Runner:
    """`once`: for a look that no other follows, so that tools beside the readings are waited for, though not
    longer than for any other tool: a survey that needs none of them must not miss its deadline by it."""
    options, deadlines = settings.reader_options, settings.deadlines
    if once:
        seconds = options.tool_timeout_seconds
        options = replace(options, first_answer_seconds=seconds)
        deadlines = replace(deadlines, pass_seconds=deadlines.pass_seconds + seconds)
    return Runner(
        open_reader(vendor, options), deadlines=deadlines, changed=changed, expected=settings.expected_devices
    )
