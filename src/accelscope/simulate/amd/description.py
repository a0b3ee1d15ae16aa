"""The AMD section of a description: from YAML to its spec."""

from dataclasses import replace

from accelscope.simulate.amd.cards import CARDS, Card
from accelscope.simulate.amd.spec import AmdDeviceSpec, AmdSpec
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.simulate.section import DescriptionError, Section, shown, unknown

TOOLS = ("amd-smi", "rocm-smi")
_COMPUTE = ("SPX", "DPX", "QPX", "CPX")
_MEMORY = ("NPS1", "NPS2", "NPS4", "NPS8")


def read_section(section: Section) -> AmdSpec:
    usual = AmdSpec()
    in_kernel = section.flag("in_kernel_driver", default=False)
    version = section.optional_text("driver_version", r"\d+(\.\d+){1,2}", "a version such as '6.14.14'")
    return AmdSpec(
        rocm_version=section.optional_text(
            "rocm_version", r"[4-7]\.\d+(\.\d+)?", "a version such as '7.0.2', in quotes"
        )
        or usual.rocm_version,
        driver_version=None if in_kernel else version or usual.driver_version,
        kernel_release=section.text("kernel_release", usual.kernel_release),
        tools=_tools(section),
        amd_smi=read_tool_cost(section, "amd_smi"),
        rocm_smi=read_tool_cost(section, "rocm_smi"),
        devices=read_devices(section, _device),
    )


def _tools(section: Section) -> tuple[str, ...]:
    if not section.has("tools"):
        return TOOLS
    named = []
    for where, name in section.items("tools"):
        if name not in TOOLS:
            raise DescriptionError(f"{where}: {shown(name)} is not known; allowed: {', '.join(TOOLS)}")
        named.append(str(name))
    return tuple(named)


def _device(section: Section) -> AmdDeviceSpec:
    model = section.take("model")
    card = CARDS.get(str(model))
    if card is None:
        raise section.error("model", f"{unknown(model)}; allowed: {', '.join(CARDS)}")
    card = replace(card, market_name=section.text("name", card.market_name))
    limit = section.number(
        "power_limit_watts", card.power.default_watts, card.power.min_watts or 1, card.power.max_watts
    )
    return AmdDeviceSpec(
        card=card,
        power_limit_watts=limit,
        ambient_celsius=section.number("ambient_celsius", 28.0, 0, 60),
        suspended=section.flag("suspended", default=False),
        compute_partition=_partition(section, "compute_partition", card, _COMPUTE),
        memory_partition=_partition(section, "memory_partition", card, _MEMORY),
    )


def _partition(section: Section, key: str, card: Card, known: tuple[str, ...]) -> str | None:
    given = section.take(key)
    if card.xccs == 1:
        if given is not None:
            raise section.error(key, f"{card.model} cannot be cut")
        return None
    if given is not None and given not in known:
        raise section.error(key, f"{shown(given)} is not known; allowed: {', '.join(known)}")
    return str(given or known[0])
