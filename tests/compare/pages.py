"""Small pages in the forms that the other exporters publish. The values are made up."""

from collections.abc import Iterable, Mapping

from accelscope.compare import Comparison, Page, Scrape, compare, detect, parse

Labels = Mapping[str, str]

GPU = {
    "gpu": "0",
    "UUID": "GPU-00000000-0000-0000-0000-000000000000",
    "pci_bus_id": "00000000:1B:00.0",
    "device": "nvidia0",
    "modelName": "NVIDIA H100 80GB HBM3",
    "Hostname": "node1",
}
GPU_1 = GPU | {
    "gpu": "1",
    "UUID": "GPU-11111111-1111-1111-1111-111111111111",
    "pci_bus_id": "00000000:43:00.0",
    "device": "nvidia1",
}


def line(name: str, labels: Labels, value: object) -> str:
    inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value}\n" if inside else f"{name} {value}\n"


def gauge(name: str, *series: tuple[Labels, object], text: str = "") -> str:
    return family(name, "gauge", series, text)


def counter(name: str, *series: tuple[Labels, object]) -> str:
    return family(name, "counter", series, "")


def family(name: str, kind: str, series: Iterable[tuple[Labels, object]], text: str) -> str:
    lines = "".join(line(name, labels, value) for labels, value in series)
    return f"# HELP {name} {text or name}\n# TYPE {name} {kind}\n{lines}"


TEMPERATURE, POWER, USED, ENERGY, LICENCE = (
    f"DCGM_FI_DEV_{name}"
    for name in ("GPU_TEMP", "POWER_USAGE", "FB_USED", "TOTAL_ENERGY_CONSUMPTION", "VGPU_LICENSE_STATUS")
)


def page(text: str, source: str = "page") -> Page:
    return parse(text, source)


def compared(old: str, new: str, **options: object) -> Comparison:
    before = page(old, "old")
    return compare(Scrape(before), Scrape(page(new, "new")), detect(before), **options)  # type: ignore[arg-type]
