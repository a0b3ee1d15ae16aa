"""Trees of /sys and tools as small scripts, for tests of the reader."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests import programs

from accelscope.vendors.common.contract import Paths, ReaderOptions

ATR_ERROR = """AXI Post Error: {axi_post}
AXI Fetch Error: 0
AXI Discard Error: 0
AXI Doorbell done: 12
PCIe Post Error: 0
PCIe Fetch Error: 0
PCIe Discard Error: 0
PCIe Doorbell done: 7
Device Error: 0
"""


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def hwmon(address: str, sensors: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """`sensors`: label and raw value by the beginning of the file's name, such as temp1."""
    folder = f"sys/bus/pci/devices/{address}/hwmon/hwmon3"
    files = {f"{folder}/name": "furiosa\n"}
    for name, (label, value) in sensors.items():
        item = "average" if name.startswith("power") else "input"
        files[f"{folder}/{name}_{item}"] = f"{value}\n"
        if label:
            files[f"{folder}/{name}_label"] = f"{label}\n"
    return files


def warboy(index: int, address: str, **changed: str) -> dict[str, str]:
    folder = f"sys/class/npu_mgmt/npu{index}_mgmt"
    attributes = {
        "alive": "1\n",
        "atr_error": ATR_ERROR.format(axi_post=0),
        "busname": f"{address}\n",
        "device_sn": f"WBYB000000000{index}\n",
        "device_type": "Warboy\n",
        "device_uuid": f"A000000{index}-1111-2222-3333-444444444444\n",
        "fw_version": "1.6.0, 1234567\n",
        "heartbeat": "4711\n",
        "ne_clk_freq_info": "ne tensor (MHz): 2000\nne memory (MHz): 1000\ndram (MT/s): 4266\n",
        "platform_type": "FuriosaAI\n",
        "version": "1.9.2, 7654321\n",
    } | changed
    return {
        **{f"{folder}/{name}": text for name, text in attributes.items()},
        f"sys/bus/pci/devices/{address}/numa_node": "1\n",
        f"sys/bus/pci/devices/{address}/current_link_speed": "16.0 GT/s PCIe\n",
        f"sys/bus/pci/devices/{address}/current_link_width": "8\n",
    }


def rngd(index: int, address: str, **changed: str) -> dict[str, str]:
    folder = f"sys/class/rngd_mgmt/rngd!npu{index}mgmt"
    attributes = {
        "device_state": "0\n",
        "atr_error": ATR_ERROR.format(axi_post=0),
        "busname": f"{address}\n",
        "device_sn": f"RNGD00000{index}\n",
        "device_type": "RNGD\n",
        "device_uuid": f"B000000{index}-1111-2222-3333-444444444444\n",
        "fw_version": "2026.3.0, 2d3f72a\n",
        "heartbeat": "86400\n",
        "npu_clocks": "2000000000\n" * 8,
        "pe_occupancy": "1\n1\n0\n0\n0\n0\n0\n0\n",
        "platform_type": "FuriosaAI\n",
        "throttle_reason": "0x00000000\n",
        "version": "2026.3.1, e28c5c0\n",
    } | changed
    return {
        **{f"{folder}/{name}": text for name, text in attributes.items()},
        f"sys/bus/pci/devices/{address}/numa_node": "0\n",
        f"sys/bus/pci/devices/{address}/current_link_speed": "32.0 GT/s PCIe\n",
        f"sys/bus/pci/devices/{address}/current_link_width": "16\n",
    }


def drawn(*rows: str) -> str:
    """A table, with a rule around every row; cells are divided by two blanks or more."""
    cells = [re.split(r"\s{2,}", row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |\n" for row in cells]
    return rule + "".join(line + rule for line in lines)


def script(root: Path, name: str, answers: Mapping[str, str], *, otherwise: str = "") -> None:
    """A tool that prints the text for its command line; for others it fails, and says `otherwise`."""
    lines = ['case "$*" in']
    for number, (arguments, text) in enumerate(answers.items()):
        answer = root / "answers" / f"{name}.{number}"
        answer.parent.mkdir(exist_ok=True)
        answer.write_text(text)
        lines.append(f"'{arguments}') cat '{answer}' ;;")
    lines += [f"*) echo '{otherwise}' >&2; exit 2 ;;", "esac"]
    programs.script(root / "bin" / name, "\n".join(lines))


def options(
    root: Path, *, tool_timeout_seconds: float = 10.0, tool_interval_seconds: float = 60.0
) -> ReaderOptions:
    (root / "sys").mkdir(parents=True, exist_ok=True)
    return ReaderOptions(
        Paths(
            proc=root / "proc",
            sys=root / "sys",
            dev=root / "dev",
        ),
        {
            "furiosa_smi_path": str(root / "bin/furiosa-smi"),
            "furiosactl_path": str(root / "bin/furiosactl"),
        },
        tool_timeout_seconds=tool_timeout_seconds,
        tool_interval_seconds=tool_interval_seconds,
    )
