"""What is known of a process besides, put to what the driver told."""

from dataclasses import fields, replace

from accelscope.model import HostUse, Owner, OwnerKind, Process, ProcessType

SHOWN = Process(
    pid=7,
    device="nvidia:GPU-1",
    device_index=0,
    partition="MIG-1",
    gpu_instance_id=1,
    compute_instance_id=2,
    name="short",
    type=ProcessType.BOTH,
    mps=False,
    memory_bytes=1 << 20,
    utilization_ratio=0.5,
    memory_utilization_ratio=0.25,
    encoder_utilization_ratio=0.0,
    decoder_utilization_ratio=0.125,
    cores=(1, 2),
)
OWNER = Owner(kind=OwnerKind.USER, name="alice")


def test_a_described_process_is_the_same_with_what_is_known_besides() -> None:
    use = HostUse(cpu_ratio=1.5, resident_memory_bytes=4096, started_at=1000.25)
    described = SHOWN.described("train", "alice", OWNER, use)
    assert type(described) is Process
    assert described == replace(
        SHOWN,
        name="train",
        user="alice",
        owner=OWNER,
        cpu_ratio=1.5,
        resident_memory_bytes=4096,
        started_at=1000.25,
    )


def test_one_of_which_the_node_tells_nothing_has_no_use_of_it() -> None:
    described = SHOWN.described("train", None, OWNER)
    assert (described.cpu_ratio, described.resident_memory_bytes, described.started_at) == (None, None, None)
    assert described == replace(SHOWN, name="train", owner=OWNER)


def test_what_a_process_takes_of_the_node_has_the_names_of_its_fields() -> None:
    assert set(HostUse._fields) <= {field.name for field in fields(Process)}
