"""Parsing of the XML log, with short examples."""

import pytest

from accelscope.model import Device, EccCount, Process, ProcessType
from accelscope.parsing import ParseResult
from accelscope.vendors.nvidia.parse_xml import parse

MIB = 2**20
HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'


def gpu(body: str, *, uuid: str = "GPU-a", address: str = "00000000:0C:00.0") -> str:
    return f'<gpu id="{address}"><uuid>{uuid}</uuid>{body}</gpu>'


def log(*gpus: str, attached: int | None = None) -> str:
    count = len(gpus) if attached is None else attached
    return (
        f"{HEAD}<nvidia_smi_log><driver_version>550.1</driver_version><attached_gpus>{count}</attached_gpus>"
        f"{''.join(gpus)}</nvidia_smi_log>\n"
    )


def only(text: str) -> Device:
    parsed = parse(text)
    assert parsed.error is None
    [device] = parsed.devices
    return device


def reasons(parsed: ParseResult) -> list[str]:
    return [rejection.reason for rejection in parsed.rejected]


def absences(device: Device) -> dict[str, str]:
    return {absence.field: absence.reason.value for absence in device.absent}


@pytest.mark.parametrize(
    ("readings", "watts", "limit"),
    [
        (
            "<power_readings><power_draw> 66.84 W </power_draw><power_limit>70 W</power_limit>"
            "</power_readings>",
            66.84,
            70.0,
        ),
        (
            "<gpu_power_readings><power_draw>5 W</power_draw><current_power_limit>9 W</current_power_limit>"
            "</gpu_power_readings>",
            5.0,
            9.0,
        ),
        (
            "<gpu_power_readings><average_power_draw>5 W</average_power_draw>"
            "<instant_power_draw>6 W</instant_power_draw></gpu_power_readings>",
            6.0,
            None,
        ),
        (
            "<gpu_power_readings><average_power_draw>5 W</average_power_draw>"
            "<instant_power_draw>N/A</instant_power_draw></gpu_power_readings>",
            5.0,
            None,
        ),
        (
            "<module_power_readings><power_draw>99 W</power_draw></module_power_readings>"
            "<gpu_memory_power_readings><average_power_draw>98 W</average_power_draw>"
            "</gpu_memory_power_readings>",
            None,
            None,
        ),
    ],
)
def test_power_by_the_layout_of_its_age(readings: str, watts: float | None, limit: float | None) -> None:
    device = only(log(gpu(readings)))
    assert (device.power_watts, device.power_limit_watts) == (watts, limit)
    assert absences(device) == {}


def test_the_index_is_known_only_if_the_log_contains_all_gpus() -> None:
    pair = (gpu("", uuid="GPU-a"), gpu("", uuid="GPU-b"))
    assert [device.index for device in parse(log(*pair)).devices] == [0, 1]
    assert [device.index for device in parse(log(*pair, attached=8)).devices] == [None, None]


def test_markers_in_a_log_are_absences() -> None:
    device = only(
        log(
            gpu(
                "<fan_speed>N/A</fan_speed><serial>N/A</serial><remapped_rows>N/A</remapped_rows>"
                "<utilization><gpu_util>Unknown Error</gpu_util><memory_util>7 %</memory_util></utilization>"
                "<temperature><gpu_temp>ERR!</gpu_temp></temperature>"
            )
        )
    )
    assert absences(device) == {
        "fans": "not_supported",
        "serial": "not_supported",
        "remapped_rows": "not_supported",
        "utilization_ratio": "driver_error",
        "temperature_celsius": "driver_error",
    }


def test_parity_and_secded_counts_of_newer_logs_are_separate() -> None:
    device = only(
        log(
            gpu(
                "<ecc_errors><aggregate><sram_correctable>1</sram_correctable>"
                "<sram_uncorrectable_parity>2</sram_uncorrectable_parity>"
                "<sram_uncorrectable_secded>3</sram_uncorrectable_secded>"
                "<dram_uncorrectable>4</dram_uncorrectable></aggregate></ecc_errors>"
                "<remapped_rows><remapped_row_corr>1</remapped_row_corr><remapped_row_unc>2</remapped_row_unc>"
                "<remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>"
                "</remapped_rows>"
            )
        )
    )
    assert set(device.ecc) == {
        EccCount("corrected", lifetime=True, count=1, block="sram"),
        EccCount("uncorrected", lifetime=True, count=2, block="sram_parity"),
        EccCount("uncorrected", lifetime=True, count=3, block="sram_secded"),
        EccCount("uncorrected", lifetime=True, count=4, block="dram"),
    }
    rows = device.remapped_rows
    assert rows is not None
    assert (rows.correctable, rows.uncorrectable, rows.pending, rows.failed) == (1, 2, True, False)


def mig(index: int, instance: int, compute: int, used: int) -> str:
    return (
        f"<mig_device><index>{index}</index><gpu_instance_id>{instance}</gpu_instance_id>"
        f"<compute_instance_id>{compute}</compute_instance_id><device_attributes><shared>"
        f"<multiprocessor_count>{16 * (compute + 1)}</multiprocessor_count></shared></device_attributes>"
        f"<fb_memory_usage><total>100 MiB</total><used>{used} MiB</used><free>{100 - used} MiB</free>"
        "</fb_memory_usage></mig_device>"
    )


def mig_process(instance: str, compute: str, pid: int, kind: str = "C") -> str:
    return (
        f"<process_info><gpu_instance_id>{instance}</gpu_instance_id>"
        f"<compute_instance_id>{compute}</compute_instance_id><pid>{pid}</pid><type>{kind}</type>"
        "<process_name>/opt/tool --key=secret</process_name><used_memory>5 MiB</used_memory></process_info>"
    )


def test_shared_memory_of_mig_devices_is_counted_once() -> None:
    devices = f"<mig_devices>{mig(0, 2, 0, 30)}{mig(1, 2, 1, 30)}{mig(2, 3, 0, 5)}</mig_devices>"
    device = only(log(gpu(devices)))
    assert [
        (part.memory_total_bytes, part.memory_used_bytes, part.memory_free_bytes)
        for part in device.partitions
    ] == [(100 * MIB, 30 * MIB, 70 * MIB), (None, None, None), (100 * MIB, 5 * MIB, 95 * MIB)]
    assert [partition.multiprocessors for partition in device.partitions] == [16, 32, 16]
    assert [(p.index, p.gpu_instance_id, p.compute_instance_id) for p in device.partitions] == [
        (0, 2, 0),
        (1, 2, 1),
        (2, 3, 0),
    ]
    assert [partition.id for partition in device.partitions] == [
        f"nvidia:GPU-a/{place}" for place in ("gi2/ci0", "gi2/ci1", "gi3/ci0")
    ]
    assert absences(device) == {
        f"partitions.1.memory_{kind}_bytes": "shared" for kind in ("total", "used", "free")
    }


def test_processes_are_assigned_to_partitions_by_instance() -> None:
    devices = f"<mig_devices>{mig(0, 2, 0, 30)}{mig(1, 2, 1, 30)}</mig_devices>"
    listed = f"<processes>{mig_process('2', '1', 7)}{mig_process('N/A', 'N/A', 8, 'M+C')}</processes>"
    parsed = parse(log(gpu(devices + listed)))
    first, second = parsed.processes
    assert (first.pid, first.partition) == (7, parsed.devices[0].partitions[1].id)
    assert (first.gpu_instance_id, first.compute_instance_id) == (2, 1)
    assert (second.pid, second.partition, second.gpu_instance_id) == (8, None, None)
    assert (second.type, second.mps) == (ProcessType.COMPUTE, True)
    assert {process.name for process in parsed.processes} == {"tool"}
    assert {process.device for process in parsed.processes} == {"nvidia:GPU-a"}
    assert {process.memory_bytes for process in parsed.processes} == {5 * MIB}


def test_a_process_may_have_only_a_pid() -> None:
    parsed = parse(log(gpu("<processes><process_info><pid>9</pid></process_info></processes>")))
    assert parsed.processes == (Process(pid=9, device="nvidia:GPU-a", device_index=0),)
    assert parsed.rejected == ()


@pytest.mark.parametrize("text", ["None", "\n\t\tNone\n", "", "N/A"])
def test_mig_devices_may_be_a_text(text: str) -> None:
    assert only(log(gpu(f"<mig_devices>{text}</mig_devices>"))).partitions == ()


def test_a_process_without_a_pid_is_rejected() -> None:
    listed = f"<processes>{mig_process('N/A', 'N/A', 0)}{mig_process('N/A', 'N/A', 9)}</processes>"
    parsed = parse(log(gpu(listed)))
    assert [process.pid for process in parsed.processes] == [9]
    assert reasons(parsed) == ["not_a_row"]


def test_a_bad_cell_of_a_process_is_rejected_alone() -> None:
    listed = mig_process("N/A", "N/A", 9, "Z").replace("5 MiB", "lots")
    parsed = parse(log(gpu(f"<processes>{listed}</processes>")))
    assert [(process.pid, process.type, process.memory_bytes) for process in parsed.processes] == [
        (9, None, None)
    ]
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [
        ("type: Z", "unreadable"),
        ("used_memory: lots", "unreadable"),
    ]


def test_a_bad_cell_of_a_device_is_rejected_with_its_name() -> None:
    parsed = parse(log(gpu("<fan_speed>lots</fan_speed>", address="nowhere")))
    assert [rejection.line for rejection in parsed.rejected] == ["fan_speed: lots", "id: nowhere"]


@pytest.mark.parametrize("tag", ["driver_version", "kmd_version"])
def test_the_driver_version_has_two_names(tag: str) -> None:
    assert only(log(gpu("")).replace("driver_version", tag)).driver_version == "550.1"


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("<product_name>X</product_name><fan_speed>5 %</fan_speed>", "unknown"),
        ("<fan_speed>GPU is lost</fan_speed>", "lost"),
        ("<mig_mode><current_mig>GPU requires reset</current_mig></mig_mode>", "critical"),
        ("<gpu_recovery_action>None</gpu_recovery_action>", "unknown"),
        ("<gpu_recovery_action>Reboot</gpu_recovery_action>", "critical"),
        ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", "critical"),
        ("<gpu_reset_status><reset_required>No</reset_required></gpu_reset_status>", "unknown"),
    ],
)
def test_the_health_follows_from_the_log(body: str, state: str) -> None:
    assert only(log(gpu(body))).health.state == state


@pytest.mark.parametrize(
    ("tag", "word"),
    [("reset_required", "Reset"), ("drain_and_reset_recommended", "Drain and Reset")],
)
def test_a_requested_reset_contains_the_driver_text(tag: str, word: str) -> None:
    status = f"<gpu_reset_status><{tag}>Yes</{tag}></gpu_reset_status>"
    assert only(log(gpu(status))).health.vendor_word == word
    action = "<gpu_recovery_action>Reboot</gpu_recovery_action>"
    assert only(log(gpu(action + status))).health.vendor_word == "Reboot"


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "\ufeff{}",
        "WARNING: something\nmore\n{}",
        "{}\nWARNING: something else\n",
        "<nvidia_smi_log><gpu id='0000:09:00.0'><uuid>GPU-old</uuid></gpu></nvidia_smi_log>\n{}",
        "{}\n<nvidia_smi_log><gpu id='0000:09:00.0'><uuid>GPU-cut",
    ],
)
def test_the_last_complete_log_is_used(around: str) -> None:
    assert only(around.format(log(gpu("<fan_speed>5 %</fan_speed>")))).uuid == "GPU-a"


def test_a_log_without_declaration_and_doctype_is_read() -> None:
    assert only(log(gpu("")).removeprefix(HEAD)).uuid == "GPU-a"


def test_a_corrupted_inforom_is_a_warning() -> None:
    parsed = parse(log(gpu("")) + "WARNING: infoROM is corrupted at gpu 0000:0C:00.0\n")
    assert [device.health.state.value for device in parsed.devices] == ["warning"]
    assert reasons(parsed) == ["inforom_corrupted"]


def test_unescaped_names_are_read() -> None:
    listed = mig_process("N/A", "N/A", 7).replace("/opt/tool", "/opt/R&D\x01/a&amp;b&tool")
    [process] = parse(log(gpu(f"<processes>{listed}</processes>"))).processes
    assert process.name == "a&b&tool"


def test_a_truncated_log_keeps_its_complete_elements() -> None:
    text = log(
        gpu("<fan_speed>5 %</fan_speed>", uuid="GPU-a"),
        gpu("<fan_speed>6 %</fan_speed><performance_state>P12</performance_state>", uuid="GPU-b"),
    )
    parsed = parse(text[: text.index("P12") + 2])
    assert parsed.error is None
    assert [(d.uuid, d.index, d.fans[0].speed_ratio) for d in parsed.devices] == [
        ("GPU-a", None, 0.05),
        ("GPU-b", None, 0.06),
    ]
    assert [device.performance_state for device in parsed.devices] == [None, None]
    assert reasons(parsed) == ["truncated"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (log(), "no_devices"),
        ("<nvidia_smi_log", "truncated"),
        ("<nvidia_smi_log><gpus></nvidia_smi_log>", "bad_xml"),
        ("<nvidia_smi_log></nope></nvidia_smi_log>", "bad_xml"),
        ("<nvidia_smi_log>" + "<a>" * 100 + "</a>" * 100 + "</nvidia_smi_log>", "too_large"),
        ("<html><body>not found</body></html>", "unrecognized"),
    ],
)
def test_other_text_is_an_error_with_a_reason(text: str, reason: str) -> None:
    parsed = parse(text)
    assert parsed.devices == ()
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert "nvidia-smi" in parsed.error.text or reason != "unrecognized"


def test_custom_entities_are_not_expanded() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "boom"><!ENTITY b SYSTEM "file:///etc/hostname">]>'
    text = log(gpu("<product_name>&a;&b;</product_name>")).replace(HEAD, bomb)
    assert only(text).model == "&a;&b;"


MARGINS = (
    "<temperature><gpu_temp>{now} C</gpu_temp><gpu_temp_tlimit>{margin} C</gpu_temp_tlimit>"
    "<gpu_temp_max_tlimit_threshold>-8 C</gpu_temp_max_tlimit_threshold>"
    "<gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold></temperature>"
)


@pytest.mark.parametrize(("now", "margin"), [(36, 46), (80, 2), (82, 0), (85, -3)])
def test_margins_are_converted_to_limits_in_degrees(now: int, margin: int) -> None:
    """Ada and later: the limit is reached when the margin equals the threshold."""
    device = only(log(gpu(MARGINS.format(now=now, margin=margin))))
    assert (device.temperature_slowdown_celsius, device.temperature_shutdown_celsius) == (84.0, 90.0)


@pytest.mark.parametrize("missing", ["gpu_temp", "gpu_temp_tlimit", "gpu_temp_slow_tlimit_threshold"])
def test_without_a_margin_there_is_no_limit(missing: str) -> None:
    text = (
        MARGINS.format(now=36, margin=46)
        .replace(f"<{missing}>", f"<{missing}>N/A<!--")
        .replace(f"</{missing}>", f"--></{missing}>")
    )
    assert only(log(gpu(text))).temperature_slowdown_celsius is None


def test_a_limit_in_degrees_takes_precedence_over_a_margin() -> None:
    text = MARGINS.format(now=36, margin=46).replace(
        "</temperature>", "<gpu_temp_slow_threshold>89 C</gpu_temp_slow_threshold></temperature>"
    )
    assert only(log(gpu(text))).temperature_slowdown_celsius == 89.0


def test_unidentified_gpus_have_distinct_ids() -> None:
    zeros = "GPU-00000000-0000-0000-0000-000000000000"
    gpus = [gpu("", uuid=zeros, address="N/A"), gpu("", uuid=zeros, address="N/A")]
    assert [device.id for device in parse(log(*gpus, attached=3)).devices] == [
        "nvidia:unidentified-row-1",
        "nvidia:unidentified-row-2",
    ]
