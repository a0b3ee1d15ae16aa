"""The Furiosa section of a description: from YAML to its spec."""

from accelscope.simulate.furiosa.models import MODELS, Family
from accelscope.simulate.furiosa.spec import CardSpec, CtlVersion, FuriosaSpec, SmiVersion, Versions
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.simulate.section import Section, shown, unknown


def read_section(section: Section) -> FuriosaSpec:
    devices = read_devices(section, _card)
    families = {card.model.family for card in devices}
    usual = FuriosaSpec()
    return FuriosaSpec(
        furiosa_smi=section.choice(
            "furiosa_smi", SmiVersion, SmiVersion.V2026_1 if Family.RNGD in families else SmiVersion.NONE
        ),
        furiosactl=section.choice(
            "furiosactl", CtlVersion, CtlVersion.V0_10 if Family.WARBOY in families else CtlVersion.NONE
        ),
        warboy=_versions(section, "warboy", usual.warboy),
        rngd=_versions(section, "rngd", usual.rngd),
        sysfs=section.flag("sysfs", default=True),
        tool=read_tool_cost(section),
        devices=devices,
    )


def read_cores(section: Section, spec: FuriosaSpec, devices: tuple[int, ...]) -> tuple[int, ...]:
    """The cores that a process holds on each of its cards; all of them unless it says."""
    most = min((spec.devices[device].model.cores for device in devices), default=0)
    cores: list[int] = []
    for _, core in section.items("cores"):
        if not isinstance(core, int) or isinstance(core, bool) or not 0 <= core < most:
            raise section.error("cores", f"there is no core {shown(core)}; allowed: 0 to {most - 1}")
        cores.append(core)
    if cores and cores != list(range(cores[0], cores[-1] + 1)):
        raise section.error("cores", f"expected cores one after the other, got {cores}")
    return tuple(cores)


def _card(section: Section) -> CardSpec:
    name = section.take("model")
    model = MODELS.get(str(name))
    if model is None:
        raise section.error("model", f"{unknown(name)}; allowed: {', '.join(MODELS)}")
    return CardSpec(model=model, ambient_celsius=section.number("ambient_celsius", 27.0, 0, 60))


def _versions(section: Section, key: str, usual: Versions) -> Versions:
    entry = section.section(key)
    versions = Versions(
        driver=entry.text("driver", usual.driver), firmware=entry.text("firmware", usual.firmware)
    )
    entry.finish()
    return versions
