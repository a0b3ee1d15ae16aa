"""The Furiosa section of a description: from YAML to its spec."""

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, LINE, Choice, Decimal, WholeNumber
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.vendors.furiosa.simulated.models import MODELS, Family
from accelscope.vendors.furiosa.simulated.spec import CardSpec, CtlVersion, FuriosaSpec, SmiVersion, Versions


def read_section(section: Section) -> FuriosaSpec:
    devices = read_devices(section, _card)
    families = {card.model.family for card in devices}
    usual = FuriosaSpec()
    return FuriosaSpec(
        furiosa_smi=section.take(
            "furiosa_smi",
            Choice(*SmiVersion),
            SmiVersion.V2026_1 if Family.RNGD in families else SmiVersion.NONE,
        ),
        furiosactl=section.take(
            "furiosactl",
            Choice(*CtlVersion),
            CtlVersion.V0_10 if Family.WARBOY in families else CtlVersion.NONE,
        ),
        warboy=_versions(section, "warboy", usual.warboy),
        rngd=_versions(section, "rngd", usual.rngd),
        sysfs=section.take("sysfs", BOOLEAN, default=True),
        tool=read_tool_cost(section),
        devices=devices,
    )


def read_cores(section: Section, spec: FuriosaSpec, devices: tuple[int, ...]) -> tuple[int, ...]:
    """The cores that a process holds on each of its cards; all of them unless it says."""
    most = min((spec.devices[device].model.cores for device in devices), default=0)
    cores = section.take_each("cores", WholeNumber(0, most - 1, "a core"))
    if cores and cores != tuple(range(cores[0], cores[-1] + 1)):
        raise section.error("cores", f"expected cores one after the other, got {list(cores)}")
    return cores


def _card(section: Section) -> CardSpec:
    model = MODELS[section.require("model", Choice(*MODELS))]
    return CardSpec(model=model, ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 27.0))


def _versions(section: Section, key: str, usual: Versions) -> Versions:
    entry = section.section(key)
    versions = Versions(
        driver=entry.take("driver", LINE, usual.driver), firmware=entry.take("firmware", LINE, usual.firmware)
    )
    entry.finish()
    return versions
