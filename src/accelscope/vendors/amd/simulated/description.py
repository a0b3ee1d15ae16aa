"""The AMD section of a description: from YAML to its spec."""

from dataclasses import replace

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, LINE, Choice, Decimal, Text
from accelscope.simulate.parts import read_devices, read_tool_cost
from accelscope.vendors.amd.simulated.cards import CARDS, Card
from accelscope.vendors.amd.simulated.spec import AmdDeviceSpec, AmdSpec

TOOLS = ("amd-smi", "rocm-smi")
_ROCM_VERSION = Text("a version such as '7.0.2'", r"[4-7]\.\d+(\.\d+)?")
_COMPUTE = ("SPX", "DPX", "QPX", "CPX")
_MEMORY = ("NPS1", "NPS2", "NPS4", "NPS8")


def read_section(section: Section) -> AmdSpec:
    usual = AmdSpec()
    in_kernel = section.take("in_kernel_driver", BOOLEAN, default=False)
    version = section.take("driver_version", Text("a version such as '6.14.14'", r"\d+(\.\d+){1,2}"))
    return AmdSpec(
        rocm_version=section.take("rocm_version", _ROCM_VERSION, usual.rocm_version),
        driver_version=None if in_kernel else version or usual.driver_version,
        kernel_release=section.take("kernel_release", LINE, usual.kernel_release),
        tools=section.take_each("tools", Choice(*TOOLS)) if section.has("tools") else TOOLS,
        amd_smi=read_tool_cost(section, "amd_smi"),
        rocm_smi=read_tool_cost(section, "rocm_smi"),
        devices=read_devices(section, _device),
    )


def _device(section: Section) -> AmdDeviceSpec:
    card = CARDS[section.require("model", Choice(*CARDS))]
    card = replace(card, market_name=section.take("name", LINE, card.market_name))
    limits = Decimal(card.power.min_watts or 1, card.power.max_watts)
    return AmdDeviceSpec(
        card=card,
        power_limit_watts=section.take("power_limit_watts", limits, card.power.default_watts),
        ambient_celsius=section.take("ambient_celsius", Decimal(0, 60), 28.0),
        suspended=section.take("suspended", BOOLEAN, default=False),
        compute_partition=_partition(section, "compute_partition", card, _COMPUTE),
        memory_partition=_partition(section, "memory_partition", card, _MEMORY),
    )


def _partition(section: Section, key: str, card: Card, known: tuple[str, ...]) -> str | None:
    if card.xccs > 1:
        return section.take(key, Choice(*known), known[0])
    if section.raw(key) is not None:
        raise section.error(key, f"{card.model} cannot be cut")
    return None
