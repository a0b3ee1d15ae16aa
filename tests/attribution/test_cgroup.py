"""Pod and container from `/proc/<pid>/cgroup`, in the layouts of all runtimes."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.cgroup import ProcessLocation, location_from_cgroup, parse_cgroup

UID = "7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"
UNDERSCORES = UID.replace("-", "_")
OTHER = "11112222-3333-4444-5555-666677778888"
ID = "3fa9" * 16
OUTER = "0de1" * 16
HASH = "8a6e0804bd678dd5e4c5a1d3f2b7c9e0"
SLICE = f"kubepods-burstable-pod{UNDERSCORES}.slice"
POD = f"/kubepods.slice/kubepods-burstable.slice/{SLICE}"
IN_POD = ProcessLocation(UID, ID)

PATHS = {
    "cgroupfs": (f"/kubepods/besteffort/pod{UID}/{ID}", IN_POD),
    "cgroupfs, guaranteed": (f"/kubepods/pod{UID}/{ID}", IN_POD),
    "kubepods twice": (f"/kubepods/kubepods/burstable/pod{UID}/{ID}", IN_POD),
    "docker": (f"{POD}/docker-{ID}.scope", IN_POD),
    "containerd": (f"{POD}/cri-containerd-{ID}.scope", IN_POD),
    "cri-o": (f"{POD}/crio-{ID}.scope", IN_POD),
    "cri-o, below": (f"{POD}/crio-{ID}.scope/container", IN_POD),
    "cri-o, cgroupfs": (f"/kubepods/pod{UID}/crio-{ID}", IN_POD),
    "guaranteed": (f"/kubepods.slice/kubepods-pod{UNDERSCORES}.slice/crio-{ID}.scope", IN_POD),
    "dashes in a slice": (f"/kubepods.slice/kubepods-burstable-pod{UID}.slice/docker-{ID}.scope", IN_POD),
    "both in one": (
        "/kubepods.slice/kubepods-pod7c1d0e52_93ab_4f0c-8e11_5a2b6c7d8e9f.slice/docker-" + ID + ".scope",
        IN_POD,
    ),
    "upper case": (f"/kubepods/pod{UID.upper()}/{ID}", IN_POD),
    "colons": (f"/system.slice/containerd.service/{SLICE}:cri-containerd:{ID}", IN_POD),
    "colons at the root": (f"/{SLICE}:cri-containerd:{ID}", IN_POD),
    "kind": (
        f"/docker/{OUTER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORES}.slice"
        f"/cri-containerd-{ID}.scope",
        IN_POD,
    ),
    "kind, cgroupfs": (f"/system.slice/docker-{OUTER}.scope/kubelet/kubepods/pod{UID}/{ID}", IN_POD),
    "a cluster in a pod": (f"/kubepods/pod{OTHER}/{OUTER}/kubepods/pod{UID}/{ID}", IN_POD),
    "static pod": (f"/kubepods/burstable/pod{HASH}/{ID}", ProcessLocation(HASH, ID)),
    "static pod, systemd": (
        f"/kubepods.slice/kubepods-pod{HASH}.slice/crio-{ID}.scope",
        ProcessLocation(HASH, ID),
    ),
    "a folder of the container": (f"/kubepods/pod{UID}/{ID}/kube-proxy", IN_POD),
    "a service in the container": (
        f"{POD}/docker-{ID}.scope/system.slice/nginx.service",
        ProcessLocation(UID, ID, unit="nginx.service"),
    ),
    "a job in the container": (
        f"{POD}/docker-{ID}.scope/system.slice/slurmstepd.scope/job_71/step_0",
        ProcessLocation(UID, ID, slurm_job="71", unit="slurmstepd.scope"),
    ),
    "docker in a pod": (
        f"{POD}/cri-containerd-{OUTER}.scope/docker/{ID}",
        ProcessLocation(UID, ID, outer_ids=(OUTER,)),
    ),
    "monitor in a pod": (
        f"{POD}/cri-containerd-{OUTER}.scope/libpod-conmon-{ID}.scope",
        ProcessLocation(UID, outer_ids=(OUTER,)),
    ),
    "twice the same": (f"{POD}/crio-{ID}.scope/libpod-{ID}", IN_POD),
    "another namespace": (f"/../../{SLICE}/docker-{ID}.scope", IN_POD),
    "deleted": (f"/kubepods/pod{UID} (deleted)", ProcessLocation(UID)),
    "deleted container": (f"/kubepods/pod{UID}/{ID} (deleted)", IN_POD),
    "pod only": (f"/kubepods/pod{UID}", ProcessLocation(UID)),
    "outer container only": (f"/docker/{OUTER}/kubepods/pod{UID}", ProcessLocation(UID)),
    "monitor": (f"{POD}/crio-conmon-{ID}.scope", ProcessLocation(UID)),
    "monitor outside": (f"/system.slice/crio-conmon-{ID}.scope", ProcessLocation()),
    "monitor of podman": (f"/machine.slice/libpod-conmon-{ID}.scope", ProcessLocation()),
    "monitor, the other way round": (f"{POD}/crio-{ID}-conmon.scope", ProcessLocation(UID)),
    "a slice with a monitor's name": (f"{POD}/conmon-all.slice/crio-{ID}.scope", IN_POD),
    "below, with a monitor's name": (f"{POD}/crio-{ID}.scope/conmon/x", IN_POD),
    "sibling": (f"/../cri-containerd-{ID}.scope", ProcessLocation(container_id=ID)),
    "plain docker": (f"/docker/{ID}", ProcessLocation(container_id=ID)),
    "docker, systemd": (f"/system.slice/docker-{ID}.scope", ProcessLocation(container_id=ID)),
    "docker in docker": (f"/docker/{OUTER}/docker/{ID}", ProcessLocation(container_id=ID)),
    "bare id": (f"/{ID}", ProcessLocation(container_id=ID)),
    "podman": (f"/machine.slice/libpod-{ID}.scope/container", ProcessLocation(container_id=ID)),
    "podman, split": (
        f"/system.slice/web.service/libpod-payload-{ID}",
        ProcessLocation(container_id=ID),
    ),
    "rootless podman": (
        f"/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-{ID}.scope/container",
        ProcessLocation(container_id=ID, uid=1001),
    ),
    "podman in a job": (
        f"/system.slice/slurmstepd.scope/job_5/step_0/user/task_0/libpod-{ID}",
        ProcessLocation(container_id=ID, slurm_job="5"),
    ),
    "service of a node that is a container": (
        f"/docker/{OUTER}/system.slice/kubelet.service",
        ProcessLocation(container_id=OUTER, unit="kubelet.service"),
    ),
    "63 digits": (f"/docker/{ID[:-1]}", ProcessLocation()),
    "65 digits": (f"/docker/{ID}a", ProcessLocation()),
    "no pod's uid": (f"/kubepods/pod{UID}a/x", ProcessLocation()),
    "not after the word pod": (f"/tripod{UID}/x", ProcessLocation()),
    "kubepods root": ("/kubepods", ProcessLocation()),
    "ECS": ("/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-42", ProcessLocation()),
    "slurm": ("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0", "42"),
    "slurm, named": ("/system.slice/gpu-7_slurmstepd.scope/job_43/step_batch", "43"),
    "slurm v1": ("/slurm/uid_1001/job_44/step_1/task_0", ProcessLocation(slurm_job="44", uid=1001)),
    "slurm v1, named": ("/slurm_gpu7/uid_0/job_45", ProcessLocation(slurm_job="45", uid=0)),
    "slurm itself": ("/system.slice/slurmd.service", ProcessLocation(unit="slurmd.service")),
    "no job": ("/system.slice/job_42/x", ProcessLocation()),
    "service": ("/system.slice/sshd.service", ProcessLocation(unit="sshd.service")),
    "template": ("/system.slice/system-vllm.slice/vllm@0.service", ProcessLocation(unit="vllm@0.service")),
    "below a service": ("/system.slice/a.service/workers", ProcessLocation(unit="a.service")),
    "service in a service": ("/system.slice/a.service/b.service", ProcessLocation(unit="b.service")),
    "scope": ("/system.slice/run-r1.scope", ProcessLocation(unit="run-r1.scope")),
    "user's service": (
        "/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service",
        ProcessLocation(unit="foo.service", uid=1000),
    ),
    "session": ("/user.slice/user-1000.slice/session-c2.scope", ProcessLocation(uid=1000)),
    "init": ("/init.scope", ProcessLocation()),
    "slice only": ("/user.slice", ProcessLocation()),
    "root": ("/", ProcessLocation(hidden=True)),
    "nothing": ("", ProcessLocation(hidden=True)),
    "up": ("/..", ProcessLocation(hidden=True)),
    "further up": ("/../../..", ProcessLocation(hidden=True)),
    "up and down": ("/../x", ProcessLocation()),
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("line", ["0::", "9:memory:", "1:name=systemd:"])
def test_layouts(name: str, line: str) -> None:
    path, expected = PATHS[name]
    place = location_from_cgroup(f"{line}{path}\n")
    if isinstance(expected, str):
        assert place.slurm_job == expected
    else:
        assert place == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([f"4:memory:/kubepods/pod{UID}/{ID}", "0::/system.slice/crio.service"], IN_POD),
        ([f"4:memory:/kubepods/pod{UID}/{ID}", "0::/"], IN_POD),
        (["0::/", f"4:memory:/kubepods/pod{UID}/{ID}"], IN_POD),
        ([f"0::/kubepods/pod{OTHER}/{OUTER}", f"4:memory:/kubepods/pod{UID}/{ID}"], IN_POD),
        ([f"0::/docker/{OUTER}", f"4:memory:/docker/{OUTER}/kubepods/pod{UID}"], ProcessLocation(UID)),
        ([f"0::/docker/{OUTER}", f"4:memory:/docker/{ID}"], ProcessLocation(container_id=ID)),
        ([f"5:cpu:/kubepods/pod{UID}", f"4:memory:/kubepods/pod{UID}/{ID}"], IN_POD),
        (["5:cpu:/", f"0::/kubepods/pod{UID}/{ID}"], IN_POD),
        (
            ["3:rdma:/", "2:cpu:/user.slice", "1:name=systemd:/system.slice/a.service"],
            ProcessLocation(unit="a.service"),
        ),
        (
            [
                "4:memory:/user.slice/user-7.slice/user@7.service",
                "1:name=systemd:/user.slice/user-7.slice/user@7.service/app.slice/b.service",
            ],
            ProcessLocation(unit="b.service", uid=7),
        ),
        (
            ["4:memory:/slurm/uid_7/job_9/step_0", "1:name=systemd:/system.slice/slurmd.service"],
            ProcessLocation(slurm_job="9", unit="slurmd.service", uid=7),
        ),
        (["3:rdma:/", "0::/"], ProcessLocation(hidden=True)),
        (["3:rdma:/", "0::/user.slice"], ProcessLocation()),
        (["other_line", "a:b", f"4:memory:/kubepods/pod{UID}/{ID}"], IN_POD),
        (["", "\ufeff", f"\t4:memory:/kubepods/pod{UID}/{ID}\r"], IN_POD),
    ],
)
def test_the_best_line_is_used(lines: list[str], expected: ProcessLocation) -> None:
    assert location_from_cgroup("\n".join(lines)) == expected
    assert location_from_cgroup("\r\n".join(lines) + "\r\n") == expected


def test_a_process_outside_containers_is_no_error() -> None:
    parsed = parse_cgroup("0::/user.slice/user-1000.slice/session-2.scope\n")
    assert parsed.containers == ()
    assert parsed.error is None


def test_a_file_of_one_process_is_one_container() -> None:
    parsed = parse_cgroup(f"other_line\n5:cpu:/kubepods/pod{UID}/{ID}\n4:memory:/kubepods/pod{UID}\n0::/\n")
    assert parsed.containers is not None
    [ref] = parsed.containers
    assert (ref.pod_uid, ref.container_id, ref.container_name) == (UID, ID, None)
    assert [(r.line, r.reason) for r in parsed.rejected] == [("other_line", "not_a_cgroup_line")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("\ufeff \r\n\n", "empty"),
        ("null", "not_a_cgroup_file"),
        ('{"a":"b:c","d":"/kubepods"}', "not_a_cgroup_file"),
        ("cat: /proc/7/cgroup: No such file or directory", "not_a_cgroup_file"),
        ("\u0661::/", "not_a_cgroup_file"),
    ],
)
def test_other_text_is_an_error_with_a_reason(text: str, reason: str) -> None:
    parsed = parse_cgroup(text)
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert parsed.error.text
    assert [r.line for r in parsed.rejected] == ([text] if reason != "empty" else [])
    assert parsed.containers is None


SEGMENTS = st.sampled_from(
    [
        *(
            "kubepods",
            "kubepods.slice",
            f"pod{UID}",
            SLICE,
            ID,
            f"docker-{OUTER}.scope",
            f"crio-conmon-{ID}.scope",
        ),
        *("..", "", "init", "system.slice", "a.service", "user-1000.slice", "session-1.scope", "init.scope"),
        *("slurmstepd.scope", "slurm", "uid_7", "job_8", f"{SLICE}:cri-containerd:{ID}", f"pod{HASH}"),
    ]
)
ANY_LINE = st.tuples(
    st.sampled_from(["0::", "5:cpu:", "1:name=systemd:", "x:", ""]),
    st.lists(st.one_of(SEGMENTS, st.text(max_size=8)), max_size=6).map("/".join),
).map("/".join)


@given(st.lists(ANY_LINE, max_size=6).map("\n".join))
def test_results_are_substrings_of_the_text(text: str) -> None:
    place = location_from_cgroup(text)
    written = text.lower().replace("_", "-")
    for field in fields(place):
        told = getattr(place, field.name)
        for one in told if isinstance(told, tuple) else (told,):
            if one is not None and field.name != "hidden":
                assert str(one).lower().replace("_", "-") in written
    if place.hidden:
        assert place == ProcessLocation(hidden=True)


@given(st.text(max_size=30).filter(lambda text: ":" not in text), st.integers(0, 3))
def test_malformed_lines_change_nothing(line: str, at: int) -> None:
    lines = [f"5:cpu:/kubepods/pod{UID}/{ID}", "4:memory:/", "0::/"]
    lines.insert(at, line)
    assert location_from_cgroup("\n".join(lines)) == IN_POD
