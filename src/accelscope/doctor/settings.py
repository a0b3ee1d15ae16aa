"""Where the settings came from, and whether those that choose metrics find any."""

from collections.abc import Iterator, Sequence

from accelscope.config.declaration import flag_name, settings_of
from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, ok, sentence, warning
from accelscope.doctor.subject import Subject
from accelscope.metrics import dialects
from accelscope.metrics.exposition import patterns_without_family

_LISTS_OF_METRICS = ("metric_allowlist", "metric_denylist")


def given(subject: Subject) -> Iterator[Finding]:
    """Each setting that is given anywhere; the others have their defaults."""
    origins = subject.loaded.origins
    if not origins:
        yield ok("given", "none: every setting has its default")
    for declared in settings_of(type(subject.settings)):
        origin = origins.get(declared.name)
        if origin is None:
            continue
        value = getattr(subject.settings, declared.name)
        shown = declared.kind.text(value) or "(empty)"
        # A flag's name stands there already.
        where = "the command line" if origin.startswith("--") else origin
        name, found = flag_name(declared.name)[2:], f"{shown}, from {where}"
        idle = _without_family(subject, value) if declared.name in _LISTS_OF_METRICS else ()
        if idle:
            yield warning(
                name,
                f"{found}: no metric has a name that fits {sentence(list(idle))}",
                "Compare with the names on the agent's /metrics; those of a dialect need --dialect.",
                value=shown,
                origin=origin,
            )
        else:
            yield ok(name, found, value=shown, origin=origin)


def _without_family(subject: Subject, patterns: Sequence[str]) -> tuple[str, ...]:
    settings = subject.settings
    chosen = dialects.load(settings.dialect, amd_prefix=settings.amd_dialect_prefix)
    return patterns_without_family(patterns, chosen)


CHECKS = (Check("given", given),)
