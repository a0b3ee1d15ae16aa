"""The area of attribution: one look as the agent takes it, at what the readers' own checks brought."""

from collections.abc import Iterator, Mapping
from functools import partial

from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError
from accelscope.doctor.attribution.allocations import of_allocations
from accelscope.doctor.attribution.look import SECONDS, look
from accelscope.doctor.attribution.owners import of_processes
from accelscope.doctor.attribution.sources import of_sources
from accelscope.doctor.check import Area, Check
from accelscope.doctor.finding import Finding, error
from accelscope.doctor.subject import Subject
from accelscope.model import Vendor

Results = Mapping[Vendor, Result]  # of the readers, as far as they have come


def attribution_area(results: Results) -> Area:
    """Comes after the vendors' areas, whose checks fill `results`: drivers are not asked twice."""
    return Area("attribution", (Check("attribution", partial(attribution, results), _seconds),))


def attribution(results: Results, subject: Subject) -> Iterator[Finding]:
    try:
        seen = look(subject, tuple(results.values()))
    except ConfigError as problem:
        yield error("pods", str(problem), "The agent does not start with these settings.")
        return
    yield from of_sources(seen, subject)
    yield from of_processes(seen, subject)
    yield from of_allocations(seen, subject)


def _seconds(_: AgentSettings) -> float:
    return SECONDS + 8
