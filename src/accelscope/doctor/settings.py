"""Where the settings came from."""

from collections.abc import Iterator

from accelscope.config.declaration import flag_name, settings_of
from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, ok
from accelscope.doctor.subject import Subject


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
        yield ok(flag_name(declared.name)[2:], f"{shown}, from {where}", value=shown, origin=origin)


CHECKS = (Check("given", given),)
