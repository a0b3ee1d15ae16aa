"""Reading a vendor's devices, and comparing their number with PCI and device files."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.programs import script
from tests.waiting import PATIENCE_SECONDS

from accelscope.agent import assembly
from accelscope.agent.collector import MOST_PASSES
from accelscope.agent.runner import Deadlines
from accelscope.agent.settings import AgentSettings
from accelscope.doctor import vendors
from accelscope.doctor.check import Check, Finding, Subject
from accelscope.doctor.examination import run
from accelscope.doctor.vendors import Hardware, VendorExamination, examination_of
from accelscope.model import (
    Absence,
    AbsenceReason,
    Device,
    ErrorCount,
    Health,
    HealthState,
    Process,
    Reading,
    Rejection,
    Vendor,
)
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, ReaderOptions, Survey

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

ADDRESSES = ("0000:1b:00.0", "0000:43:00.0")
OK = Health(HealthState.OK)


def device(index: int, health: Health = OK, *absent: Absence) -> Device:
    return Device(
        vendor=Vendor("nvidia"),
        id=f"nvidia:GPU-{index}",
        index=index,
        model="H100",
        pci_address=ADDRESSES[index],
        health=health,
        absent=absent,
    )


class FakeReader:
    vendor = Vendor("nvidia")

    def __init__(self, *answers: Reading | ReaderError, survey: ReaderError | None = None) -> None:
        self.answers = answers
        self.survey_error = survey
        self.gate: threading.Event | None = None
        self.closed = False

    def survey(self) -> Survey:
        if self.gate is not None:
            self.gate.wait(20)
        if self.survey_error is not None:
            raise self.survey_error
        return Survey("fake", tuple(str(i) for i in range(len(self.answers))), "550.54.15")

    def read(self, key: str) -> Reading:
        answer = self.answers[int(key)]
        if isinstance(answer, ReaderError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


Examine = Callable[..., list[Finding]]


@pytest.fixture
def examine(node: "NodeFolder", monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Findings of the check. The advice is the reason."""

    def examined(reader: FakeReader, hardware: Hardware | None = None, **settings: str) -> list[Finding]:
        def opened(vendor: Vendor, options: ReaderOptions) -> FakeReader:
            return reader

        monkeypatch.setattr(assembly, "open_reader", opened)
        examination = VendorExamination(
            Vendor("nvidia"), (), lambda _: hardware or Hardware(), lambda reason, _: f"for {reason}"
        )
        subject = node.subject(settings)
        return list(
            run(Check("reading", lambda s: vendors.reading(examination, s), vendors.seconds), subject)
        )

    return examined


def named(findings: list[Finding], name: str) -> Finding:
    [finding] = [f for f in findings if f.name == name]
    return finding


PRESENT = Hardware(addresses=frozenset(ADDRESSES), device_files=2, driver_loaded=True)


def test_healthy_devices_are_counted_and_listed_with_processes(examine: Examine, node: "NodeFolder") -> None:
    node.write(
        {"proc/7/stat": "7 (train) S " + "0 " * 50, "proc/7/status": "Name:\ttrain\nUid:\t0\t0\t0\t0\n"}
    )
    absent = (
        Absence("fans", AbsenceReason.NOT_SUPPORTED),
        Absence("power_watts", AbsenceReason.NOT_SUPPORTED),
        Absence("energy_joules", AbsenceReason.NO_SAMPLE),
    )
    reader = FakeReader(
        Reading(device(0, OK, *absent), (Process(pid=7, device="nvidia:GPU-0"),)), Reading(device(1))
    )
    found = examine(reader, PRESENT)
    assert all(finding.severity == "ok" for finding in found), found
    assert named(found, "reading").found.startswith(
        "2 of 2 devices read through fake, driver version 550.54.15"
    )
    assert named(found, "count").found == "reader 2, PCI 2, device files 2"
    first = named(found, "device 0")
    assert first.found == "H100, nvidia:GPU-0, ok, 3 values absent (not_supported 2, no_sample 1)"
    assert first.details["absent"] == {
        "not_supported": ["fans", "power_watts"],
        "no_sample": ["energy_joules"],
    }
    assert named(found, "on devices").found == "1 process, 1 with a name, 1 with a user"
    assert reader.closed


@pytest.mark.parametrize(
    ("hardware", "severity", "advice"),
    [
        (Hardware(), "note", None),
        (Hardware(unheld=frozenset(ADDRESSES)), "warning", "for driver_absent"),
        (PRESENT, "error", "for library_absent"),
        (Hardware(driver_loaded=True), "error", "for library_absent"),
    ],
)
def test_the_severity_of_an_absent_driver_depends_on_the_hardware(
    examine: Examine, hardware: Hardware, severity: str, advice: str | None
) -> None:
    [finding] = examine(FakeReader(survey=DriverAbsent("the library is not on this node")), hardware)
    assert finding.severity == severity
    assert "the library is not on this node" in finding.found
    if advice is not None:
        assert finding.advice == advice


def test_an_unreadable_driver_is_an_error_with_advice(examine: Examine) -> None:
    [finding] = examine(FakeReader(survey=ReaderError("version_mismatch", "NVML: mismatch")), PRESENT)
    assert (finding.severity, finding.advice) == ("error", "for version_mismatch")
    assert "NVML: mismatch" in finding.found
    assert not finding.hung


def test_a_hanging_driver_is_an_error(examine: Examine) -> None:
    reader = FakeReader()
    reader.gate = threading.Event()
    try:
        [finding] = examine(reader, PRESENT, reader_timeout="0.2s")
    finally:
        reader.gate.set()
    assert (finding.severity, finding.advice, finding.hung) == ("error", "for timeout", True)


def test_a_hanging_tool_is_named(node: "NodeFolder", monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended before the deadline of its survey, so no thread is abandoned."""
    usual = AgentSettings()
    assert usual.reader_options.tool_timeout_seconds < usual.deadlines.survey_seconds
    patient = Deadlines(PATIENCE_SECONDS, PATIENCE_SECONDS, PATIENCE_SECONDS)
    monkeypatch.setattr(AgentSettings, "deadlines", patient)
    tool = script(node.folder / "nvidia-smi", "exec sleep 60")
    subject = node.subject({"nvidia_smi_path": str(tool), "reader_timeout": "1s"})
    [finding] = vendors.reading(examination_of(Vendor("nvidia")), subject)
    assert finding.severity == "error"
    assert f"{tool} gave no answer within 0.8 s" in finding.found
    assert not finding.hung


@pytest.mark.parametrize(
    ("answer", "severity", "advice"),
    [
        (Reading(device(1, Health(HealthState.WARNING, "overheated"))), "warning", "for overheated"),
        (Reading(device(1, Health(HealthState.CRITICAL, "failed"))), "error", "for failed"),
        (DeviceLost("GPU is lost"), "error", "for lost"),
        (DeviceLost("GPU requires reset", reason="reset_required"), "error", "for reset_required"),
        (ReaderError("no_permission", "closed"), "error", "for no_permission"),
    ],
)
def test_an_unhealthy_device_has_its_own_finding(
    examine: Examine, answer: Reading | ReaderError, severity: str, advice: str
) -> None:
    found = examine(FakeReader(Reading(device(0)), answer), PRESENT)
    assert named(found, "reading").severity == "ok"
    assert named(found, "device 0").severity == "ok"
    assert (named(found, "device 1").severity, named(found, "device 1").advice) == (severity, advice)


def test_error_codes_are_explained(examine: Examine) -> None:
    errors = (
        ErrorCount("xid", "48", 2, 100.0),
        ErrorCount("xid", "74", 1, 90.0),
        ErrorCount("xid", "31", 5, 95.0),
        ErrorCount("xid", "79", 0),
    )
    health = Health(
        HealthState.CRITICAL,
        "XID 48 (uncorrectable memory error)",
        cause="xid_48",
        action="Drain the GPU and reset it",
    )
    faulty = replace(device(0, health), errors=errors)
    finding = named(examine(FakeReader(Reading(faulty), Reading(device(1))), PRESENT), "device 0")
    assert finding.found.endswith(
        "critical (XID 48 (uncorrectable memory error)), XID 74 1 time (NVLink error)"
    )
    action, _, advice = (finding.advice or "").partition(". ")
    assert "reset it" in action
    assert advice == "for XID 48 (uncorrectable memory error)"
    assert [(e["code"], e["severity"]) for e in finding.details["errors"]] == [
        ("48", "critical"),
        ("74", "critical"),
        ("31", "info"),
    ]
    assert all(e["meaning"] and e["action"] and e["source"] for e in finding.details["errors"])


def test_errors_of_the_pcie_link_are_explained(examine: Examine, node: "NodeFolder") -> None:
    link = f"sys/bus/pci/devices/{ADDRESSES[0]}"
    node.write(
        {
            f"{link}/aer_dev_correctable": "RxErr 7\nBadTLP 0\nTOTAL_ERR_COR 7\n",
            f"{link}/aer_dev_nonfatal": "CmpltTO 2\nTOTAL_ERR_NONFATAL 2\n",
            f"{link}/aer_dev_fatal": "CmpltTO 1\nof a later kernel 3\n\ngarbage\n",
        }
    )
    found = examine(FakeReader(Reading(device(0)), Reading(device(1))), PRESENT)
    first = named(found, "device 0")
    assert first.found == "H100, nvidia:GPU-0, ok, AER CmpltTO 3 times (no answer in time)"
    assert (first.severity, named(found, "device 1").found) == ("ok", "H100, nvidia:GPU-1, ok")
    assert [(e["kind"], e["code"], e["count"]) for e in first.details["errors"]] == [
        ("aer", "CmpltTO", 3),
        ("aer", "RxErr", 7),
    ]


def test_the_address_of_a_lost_device_is_inferred_from_the_others(examine: Examine) -> None:
    found = examine(FakeReader(Reading(device(0)), DeviceLost("GPU is lost")), PRESENT)
    assert named(found, "count").found.endswith("; device 1 is 0000:43:00.0")


@pytest.mark.parametrize(
    ("hardware", "settings", "severity", "word"),
    [
        (PRESENT, {}, "error", "the driver does not list 0000:43:00.0"),
        (
            Hardware(frozenset(ADDRESSES[:1]), frozenset(ADDRESSES[1:]), driver_loaded=True),
            {},
            "warning",
            "no driver is bound to 0000:43:00.0",
        ),
        (Hardware(), {"expected_devices": "2"}, "error", "--expected-devices 2"),
        (Hardware(), {}, "ok", "reader 1"),
    ],
)
def test_devices_that_the_driver_does_not_list(
    examine: Examine, hardware: Hardware, settings: dict[str, str], severity: str, word: str
) -> None:
    finding = named(examine(FakeReader(Reading(device(0))), hardware, **settings), "count")
    assert finding.severity == severity
    assert word in finding.found


def test_a_driver_without_devices_is_a_warning(examine: Examine) -> None:
    finding = named(examine(FakeReader()), "count")
    assert (finding.severity, finding.advice) == ("warning", "for no_devices")


def test_reading_is_an_error_if_no_device_responds(examine: Examine) -> None:
    lost = DeviceLost("GPU is lost")
    found = examine(FakeReader(lost, lost), PRESENT)
    assert named(found, "reading").severity == "error"
    assert len([finding for finding in found if finding.name.startswith("device ")]) == 2


def test_values_that_need_permission_are_a_warning(examine: Examine) -> None:
    absent = Absence("processes", AbsenceReason.NO_PERMISSION)
    found = examine(FakeReader(Reading(device(0, OK, absent)), Reading(device(1, OK, absent))), PRESENT)
    finding = named(found, "absent")
    assert (finding.severity, finding.advice) == ("warning", "for no_permission")
    assert finding.found == "no_permission: processes"


def test_rejected_values_are_counted(examine: Examine) -> None:
    rejected = (Rejection("line", "bad_number"), Rejection("other", "bad_number"))
    found = examine(FakeReader(Reading(device(0), (), rejected)))
    assert named(found, "rejected").severity == "warning"
    assert "bad_number 2" in named(found, "rejected").found


def test_processes_missing_from_proc_are_a_warning(examine: Examine) -> None:
    processes = (Process(pid=7, device="nvidia:GPU-0"), Process(pid=8, device="nvidia:GPU-0", name="x"))
    finding = named(examine(FakeReader(Reading(device(0), processes))), "on devices")
    assert finding.severity == "warning"
    assert finding.found == "2 processes, 1 with a name, 0 with a user"
    assert "hostPID" in (finding.advice or "")


def test_a_bug_in_the_reader_is_a_finding(examine: Examine) -> None:
    class Broken(FakeReader):
        def survey(self) -> Survey:
            raise KeyError("oh")

    [finding] = examine(Broken())
    assert "KeyError" in finding.found
    assert finding.advice == "for internal"


class LearningReader(FakeReader):
    """Finds one more device at each pass, as a reader with a slow tool does."""

    known = 0

    def survey(self) -> Survey:
        self.known = min(self.known + 1, len(self.answers))
        return Survey("fake", tuple(map(str, range(self.known))), expected=len(self.answers))


def test_a_reader_that_needs_several_passes_gets_them(examine: Examine) -> None:
    found = examine(LearningReader(Reading(device(0)), Reading(device(1))), PRESENT)
    assert named(found, "count").found == "reader 2, PCI 2, device files 2"
    assert all(finding.severity == "ok" for finding in found), found


def test_reading_stops_after_a_pass_without_new_values(examine: Examine) -> None:
    class Counting(FakeReader):
        surveys = 0

        def survey(self) -> Survey:
            self.surveys += 1
            return Survey("fake", ("0",), expected=2)

    reader = Counting(Reading(device(0)))
    assert named(examine(reader, PRESENT), "count").severity == "error"
    assert reader.surveys == 2


def test_a_lost_device_is_read_once(examine: Examine) -> None:
    class Counting(FakeReader):
        surveys = 0

        def survey(self) -> Survey:
            self.surveys += 1
            return super().survey()

    reader = Counting(Reading(device(0)), DeviceLost("GPU is lost"))
    assert named(examine(reader, PRESENT), "device 1").severity == "error"
    assert reader.surveys == 1


def test_the_deadline_is_longer_than_the_passes(node: "NodeFolder") -> None:
    subject: Subject = node.subject({"reader_timeout": "10s", "device_timeout": "2s"})
    assert vendors.seconds(subject.settings) > MOST_PASSES * 22
