"""Runs in an environment with furiosa-smi or furiosa-smi-py: prints what the vendor's library reports, one
line of JSON for each line of standard input.

The two packages have different functions. Until 2026.1 utilization is measured against the clock: of these
versions the counters are read. The names of the values here are the same for both.
"""

import importlib
import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

Values = dict[str, Any]
Reader = Callable[["Library", int, Any], Values]


def plain(value: Any) -> str:
    """`RNGD` of an enumeration's `Arch.RNGD`, in lower case."""
    return str(value).rpartition(".")[2].lower()


def version(value: Any) -> str:
    """`2026.1.0, 91fe3c2`, as the driver writes it."""
    numbers = ".".join(str(property_of(found)) for found in (value.major, value.minor, value.patch))
    return f"{numbers}, {property_of(value.metadata)}"


class Library:
    def __init__(self, module: Any, readers: Sequence[Reader]) -> None:
        self.module = module
        self.readers = readers
        self.before: dict[int, Any] = {}  # counters of the last line, by device
        if hasattr(module, "init"):
            module.init()

    def line(self) -> Values:
        errors: list[str] = []
        try:
            found = self.module.list_devices()
        except Exception as error:  # noqa: BLE001 - every kind that a version raises
            return {"devices": [], "errors": [f"list_devices: {error}"]}
        devices = [self.device(place, device, errors) for place, device in enumerate(found)]
        return {"devices": devices, "errors": errors}

    def device(self, place: int, device: Any, errors: list[str]) -> Values:
        values: Values = {}
        for read in self.readers:
            try:
                values.update(read(self, place, device))
            except Exception as error:  # noqa: BLE001 - not in this version or driver
                errors.append(f"{place} {read.__name__}: {error}")
        return values


def driver(library: "Library", place: int, device: Any) -> Values:
    found = library.module.driver_info()
    # Older versions have an object whose text has another separator.
    return {"driver": re.sub(r"\s*[+,]\s*", ", ", str(found), count=1)}


# --- furiosa-smi, from 2026.4 on ------------------------------------------------------------


def identity_of_functions(library: "Library", place: int, device: Any) -> Values:
    return {
        "arch": plain(device.arch()),
        "address": str(device.bdf()),
        "name": device.device_name(),
        "index": device.dev_node_index(),
        "numa_node": device.numa_node(),
        "serial": device.serial(),
        "uuid": device.uuid(),
        "number": f"{device.major()}:{device.minor()}",
        "firmware": version(device.firmware_version()),
        "cores": device.core_num(),
    }


def cores_of_functions(library: "Library", place: int, device: Any) -> Values:
    values = {f"core.{core}.megahertz": mhz for core, mhz in device.core_frequency().items()}
    for core, status in device.core_status().items():
        values[f"core.{core}.occupied"] = plain(status) == "occupied"
    return values


def counters_of_functions(library: "Library", place: int, device: Any) -> Values:
    values: Values = {}
    counters = device.performance_counter()
    before = library.before.get(place, {})
    for core, counter in counters.items():
        values[f"core.{core}.cycles"] = property_of(counter.cycle_count)
        values[f"core.{core}.task_cycles"] = property_of(counter.task_execution_cycle)
        if core in before:
            values[f"core.{core}.utilization"] = counter.utilization_since(before[core])
    library.before[place] = counters
    return values


def memory_of_functions(library: "Library", place: int, device: Any) -> Values:
    found = device.memory_usage().values()
    return {
        "memory.total": sum(property_of(each.total_bytes) for each in found),
        "memory.used": sum(property_of(each.in_use_bytes) for each in found),
    }


def throttles_of_functions(library: "Library", place: int, device: Any) -> Values:
    kinds = [name for name in dir(library.module.ThrottleReason) if name[0].isupper() and name != "Unknown"]
    active = {words(each) for each in device.throttle_reason()}
    return {f"throttle.{word}": word in active for word in {*map(words, kinds), *active}}


def words(name: Any) -> str:
    """`ThermalSlowdown` and `thermal slowdown` as `thermal_slowdown`."""
    last = str(name).rpartition(".")[2]
    return re.sub(r"(?<=[a-z])(?=[A-Z])| ", "_", last).lower()


def power_limit(library: "Library", place: int, device: Any) -> Values:
    return {"power_limit.milliwatts": device.power_limit()}


# --- furiosa-smi-py, until 2026.1 ------------------------------------------------------------


def identity_of_info(library: "Library", place: int, device: Any) -> Values:
    info = device.device_info()
    return {
        "arch": plain(info.arch()),
        "address": info.bdf(),
        "name": info.name(),
        "index": info.index(),
        "numa_node": info.numa_node(),
        "serial": info.serial(),
        "uuid": info.uuid(),
        "number": f"{info.major()}:{info.minor()}",
        "firmware": version(info.firmware_version()),
        "cores": info.core_num(),
    }


def clocks_of_lists(library: "Library", place: int, device: Any) -> Values:
    return {
        f"core.{each.core()}.megahertz": each.frequency() for each in device.core_frequency().pe_frequency()
    }


def status_of_lists(library: "Library", place: int, device: Any) -> Values:
    found = device.core_status().pe_status()
    return {f"core.{each.core()}.occupied": plain(each.status()) == "occupied" for each in found}


def counters_of_lists(library: "Library", place: int, device: Any) -> Values:
    values: Values = {}
    for each in device.device_performance_counter().pe_performance_counters():
        values[f"core.{each.core()}.cycles"] = each.cycle_count()
        values[f"core.{each.core()}.task_cycles"] = each.task_execution_cycle()
    return values


def memory_of_lists(library: "Library", place: int, device: Any) -> Values:
    found = device.memory_utilization().dram().memory()
    return {
        "memory.total": sum(each.total_bytes() for each in found),
        "memory.used": sum(each.in_use_bytes() for each in found),
    }


def throttles_of_bits(library: "Library", place: int, device: Any) -> Values:
    bits = device.throttle_reason()
    prefix = "THROTTLE_REASON_"
    return {
        f"throttle.{name.removeprefix(prefix).lower()}": bool(bits & getattr(library.module, name))
        for name in dir(library.module)
        if name.startswith(prefix) and name != f"{prefix}NONE"
    }


# --- both ------------------------------------------------------------


def property_of(found: Any) -> Any:
    """A property of 2026.4, a function before."""
    return found() if callable(found) else found


def device_files(library: "Library", place: int, device: Any) -> Values:
    names = [property_of(each.path).rpartition("/")[2] for each in device.device_files()]
    return {f"file.{name}": name for name in names}


def temperature(library: "Library", place: int, device: Any) -> Values:
    found = device.device_temperature()
    return {
        "temperature.peak": property_of(found.soc_peak),
        "temperature.ambient": property_of(found.ambient),
    }


def power(library: "Library", place: int, device: Any) -> Values:
    return {"watts": device.power_consumption()}


def governor(library: "Library", place: int, device: Any) -> Values:
    return {"governor": plain(device.governor_profile())}


def alive(library: "Library", place: int, device: Any) -> Values:
    return {"alive": device.liveness()}


def pcie(library: "Library", place: int, device: Any) -> Values:
    found = property_of(property_of(device.pcie_info).link_info)
    return {
        "pcie.generation": property_of(found.pcie_gen_status),
        "pcie.width": property_of(found.link_width_status),
        "pcie.max_width": property_of(found.max_link_width_capability),
    }


BOTH = (driver, device_files, temperature, power, governor, alive)
READERS: dict[str, tuple[Reader, ...]] = {
    "furiosa_smi": (
        *(identity_of_functions, cores_of_functions, counters_of_functions, memory_of_functions),
        *(throttles_of_functions, power_limit, pcie, *BOTH),
    ),
    "furiosa_smi_py": (
        *(identity_of_info, clocks_of_lists, status_of_lists, counters_of_lists),
        *(memory_of_lists, throttles_of_bits, pcie, *BOTH),
    ),
}

if __name__ == "__main__":
    opened = Library(importlib.import_module(sys.argv[1]), READERS[sys.argv[1]])
    for _ in sys.stdin:
        print(json.dumps(opened.line()), flush=True)
