"""A command line is cut to the name of its program, in every form of output."""

import pytest

from accelscope.attribution.cgroup import location_from_mountinfo
from accelscope.capture.mask import container_mounts, without_command_lines

CASES = [
    (
        "drm-fdinfo",
        "drm-driver:\tamdgpu\ndrm-client-name:\t/home/alice/train --token hunter2\n",
        "drm-driver:\tamdgpu\ndrm-client-name:\ttrain\n",
    ),
    (
        "nvidia-smi-xml",
        "<process_name>/home/alice/venv/bin/python3 train.py --token hunter2</process_name>",
        "<process_name>python3</process_name>",
    ),
    (
        "nvidia-smi-xml",
        "<process_name>/bin/bash -c train < key && a</b\n--token hunter2</process_name><used_memory>1 MiB"
        "</used_memory><process_name>/bin/b <x></process_name>",
        "<process_name>bash</process_name><used_memory>1 MiB</used_memory><process_name>b</process_name>",
    ),
    ("nvidia-smi-xml", "<process_name>/bin/a --token hunter2", "<process_name>a"),
    (
        "nvidia-smi-compute-apps",
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        "GPU-1, 7, /opt/x/serve --key=a,b, 10 MiB\nGPU-1, 8, [N/A], [N/A]\n",
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        "GPU-1, 7, serve, 10 MiB\nGPU-1, 8, [N/A], [N/A]\n",
    ),
    (
        "nvidia-smi-pmon",
        "# gpu  pid type command\n# Idx    #  C/G name\n"
        "    0  123    C /usr/bin/train -x secret\n    1    -    - -\n",
        "# gpu  pid type command\n# Idx    #  C/G name\n    0  123    C train\n    1    -    - -\n",
    ),
    (
        "furiosa-smi-ps",
        "| PID  | NPU core    | CMD                            |\n"
        "| 3283 | npu0:[0, 7] | /usr/bin/furiosa-llm serve a|b |\n",
        "| PID  | NPU core    | CMD                            |\n"
        "| 3283 | npu0:[0, 7] | furiosa-llm                    |\n",
    ),
    ("furiosa-smi-ps", '[{"pid": 1, "cmd": "/bin/a --password x"}]', '[{"pid": 1, "cmd": "a"}]'),
    ("furiosa-smi-ps", '[{"pid": 1, "cmd": "KEY=x B= /bin/a b"}]', '[{"pid": 1, "cmd": "a"}]'),
    ("furiosa-smi-ps", '[{"pid": 1, "cmd": "KEY=x"}]', '[{"pid": 1, "cmd": ""}]'),
    ("amd-smi-process", '{"name": "/opt/rocm/bin/x --secret", "pid": 5}', '{"name": "x", "pid": 5}'),
    ("amd-smi-process", "    NAME: /home/bob/a.out -v\n    PID: 5\n", "    NAME: a.out\n    PID: 5\n"),
    (
        "rocm-smi-json",
        '{"system": {"PID7": "/opt/python3 --key a, b, 1, 200, 27, 88"}}',
        '{"system": {"PID7": "python3, 1, 200, 27, 88"}}',
    ),
    (
        "npu-smi-proc-mem",
        "Process id:9 Process name:/opt/run me   Process memory(MB):48208\n",
        "Process id:9 Process name:run   Process memory(MB):48208\n",
    ),
    (
        "npu-smi-info",
        "| NPU     Chip | Process id | Process name    | Process memory(MB) |\n"
        "| 0       0    | 124528     | /x/python3.8 -m | 17400              |\n",
        "| NPU     Chip | Process id | Process name    | Process memory(MB) |\n"
        "| 0       0    | 124528     | python3.8       | 17400              |\n",
    ),
    ("acme-smi-ps", '{"name": "/home/bob/python train.py --token s3cret"}', '{"name": "python"}'),
    ("acme-smi-ps", "    NAME: /home/bob/a.out -v\n", "    NAME: a.out\n"),
    (
        "nvidia-smi-compute-apps",
        "gpu_uuid, pid, process_name\nGPU-1, 8, [Insufficient Permissions]\nGPU-1, 9, [Not Found]\n",
        "gpu_uuid, pid, process_name\nGPU-1, 8, [Insufficient Permissions]\nGPU-1, 9, [Not Found]\n",
    ),
    ("amd-smi-static", '{"name": "AMD Instinct / MI300X"}', '{"name": "AMD Instinct / MI300X"}'),
    ("nvidia-smi-list", "GPU 0: NVIDIA H100 (UUID: GPU-1)\n", "GPU 0: NVIDIA H100 (UUID: GPU-1)\n"),
]


@pytest.mark.parametrize(("source", "text", "expected"), CASES)
def test_command_lines_are_cut(source: str, text: str, expected: str) -> None:
    assert without_command_lines(source, text) == expected


def test_an_endless_name_is_cut_quickly() -> None:
    text = "<process_name>/bin/a <b" * 100_000
    assert without_command_lines("nvidia-smi-xml", text).endswith("<process_name>a")


@pytest.mark.parametrize(("source", "_", "expected"), CASES)
def test_cutting_twice_changes_nothing(source: str, _: str, expected: str) -> None:
    assert without_command_lines(source, expected) == expected


def test_mounts_that_identify_a_container_stay() -> None:
    kept = (
        "602 601 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
        "603 601 259:2 /var/lib/kubelet/pods/1/etc-hosts /etc/hosts rw - ext4 - -\n"
        "604 601 259:2 /var/lib/kubelet/pods/1/containers/a/2 /dev/termination-log rw - ext4 - -\n"
        "605 601 0:30 /docker/containers/3/hostname /etc/hostname rw - ext4 - -\n"
    )
    dropped = (
        "601 550 0:95 / / rw - overlay overlay rw,lowerdir=/var/lib/x\n"
        "606 601 0:40 / /data rw - nfs4 filer.corp:/projects/secret rw,addr=10.1.2.3\n"
    )
    assert container_mounts(dropped + kept) == kept


@pytest.mark.parametrize(
    "end",
    ["nfs4 filer01.acme.internal:/export rw,addr=10.1.2.3", "ext4 /dev/mapper/gpu--node--7--vg-root rw"],
)
def test_servers_and_volumes_are_removed_from_mounts(end: str) -> None:
    pod = "00000000-1111-2222-3333-444444444444"
    text = f"603 601 259:2 /var/lib/kubelet/pods/{pod}/etc-hosts /etc/hosts rw shared:1 - {end}\n"
    kept = container_mounts(text)
    assert kept.endswith(f"shared:1 - {end.partition(' ')[0]} - -\n")
    assert location_from_mountinfo(kept) == location_from_mountinfo(text)
    assert location_from_mountinfo(kept).pod_uid == pod
