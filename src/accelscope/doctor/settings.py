"""Where the settings came from, and whether those that choose metrics find any."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from accelscope.config import ConfigError
from accelscope.config.settings import flag_name, settings_of
from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, error, ok, sentence, warning
from accelscope.doctor.subject import Subject
from accelscope.metrics.dialects import OPTIONS, Dialect
from accelscope.metrics.exposition import patterns_without_family

_DIALECT_FILES = frozenset(option.name for option in OPTIONS if option.watched)
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
        value = declared.value(subject.settings)
        shown = declared.kind.text(value) or "(empty)"
        # A flag's name stands there already.
        where = "the command line" if origin.startswith("--") else origin
        name, found = flag_name(declared.name)[2:], f"{shown}, from {where}"
        if declared.name in _DIALECT_FILES:
            yield _dialect_file(subject, declared.name, value, found)
            continue
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


def _dialect_file(subject: Subject, option: str, path: str, found: str) -> Finding:
    """Whether the file can be used, and which of its fields are not available."""
    flag = flag_name(option)
    name = flag[2:]
    try:
        chosen = subject.settings.load_dialects()
    except ConfigError as problem:
        return error(
            name,
            f"{found}: {str(problem).removeprefix(f'{flag}: ')}",
            "Correct the file; the agent does not start with it. docs/dialects.md describes the format.",
            path=path,
        )
    missed = [str(item) for dialect in chosen for item in dialect.unavailable if item.option == option]
    if missed:
        return warning(
            name,
            f"{found}: {'; '.join(missed)}",
            "Remove these lines, or look in docs/dialects.md for a field or native family instead.",
            path=path,
            unavailable=missed,
        )
    return ok(name, found, path=path)


def _without_family(subject: Subject, patterns: Sequence[str]) -> tuple[str, ...]:
    chosen: tuple[Dialect, ...] = ()
    with suppress(ConfigError):  # its own finding
        chosen = subject.settings.load_dialects()
    return patterns_without_family(patterns, chosen)


SETTINGS_CHECKS = (Check("given", given),)
