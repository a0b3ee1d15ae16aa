"""Every capture of `/proc` and of the kubelet's checkpoint, as `accelscope parse` reads it.

Of ids that belong to other people's machines only the beginning is written down here.
"""

import json
from pathlib import Path

import pytest

from accelscope.attribution.cgroup import location_from_cgroup
from accelscope.parsing import ContainerRef, ParseResult, sources

Beginnings = tuple[str, str, str | None]
NO_CONTAINER = None

# Beginning of the pod's uid and of the container's id, and the container's name; empty: unknown.
CONTAINERS: dict[str, Beginnings | None] = {
    "mountinfo_docker_cgroup-mount-at-slash_v2.txt": ("", "01234567", None),
    "mountinfo_k8s_pod-uid-override.txt": ("00000000-1111-", "01234567", None),
    "mountinfo_k8s_v1.txt": ("00000000-1111-", "01234567", None),
    "mountinfo_k8s_v2.txt": ("00000000-1111-", "01234567", None),
    "mountinfo_v2_docker-k8s.txt": ("fd698699-", "2cc65c16", "calico-typha"),
    "mountinfo_v2_self_ns-root.txt": ("90f456dd-", "", "ubuntu"),
    "v1_bottlerocket_systemd_containerd.txt": ("dd1bf9d1-", "f45298cd", None),
    "v1_cgroupfs_docker_burstable.txt": ("2c48913c-", "9bca8d63", None),
    "v1_colons_kuberuntime.txt": ("5be537b8-", "1c8f5034", None),
    "v1_containerd1213_cgroupfs.txt": ("a36d0c1d-", "5dd96d53", None),
    "v1_crio119_openshift.txt": ("8ca306fa-", "d6d725b9", None),
    "v1_dind_kubelet.txt": ("a5ea884f-", "a51a9f7d", None),
    "v1_docker-in-docker_rancheros.txt": ("", "ec08435e", None),
    "v1_docker_bare-id_debian.txt": ("", "4f797c53", None),
    "v1_first-line-garbage.txt": ("fd52ef25-", "8c046cb0", None),
    "v1_host_user-session.txt": NO_CONTAINER,
    "v1_systemd_crio_besteffort_hybrid.txt": ("a2830d0d-", "09bc3d7a", None),
    "v1_systemd_docker_besteffort_centos.txt": ("045b1e35-", "b5b6f2da", None),
    "v1_systemd_docker_burstable.txt": ("2c48913c-", "9bca8d63", None),
    "v2_containerd164_besteffort.txt": ("9493223b-", "25d057a4", None),
    "v2_crio122_besteffort.txt": ("395f906e-", "7b05b98b", None),
    "v2_crio122_burstable.txt": ("042efd86-", "f33f47b0", None),
    "v2_docker_sibling-ns.txt": ("", "1f1d6e2d", None),
    "v2_ns-relative_crio.txt": ("", "09bc3d7a", None),
    "v2_self_ns-root.txt": NO_CONTAINER,
}

# Beginning of the pod's uid, container, resource, beginnings of the device ids.
GRANTS = {
    "checkpoint_2gpu_numa1.json": ("9a15d2b5-", "app", "nvidia.com/gpu", ("GPU-9b341c59-", "GPU-c1e9f249-")),
    "checkpoint_tegra.json": ("bf52b2cd-", "check", "nvidia.com/gpu", ("tegra",)),
    "checkpoint_tensorfusion.json": ("a7461dc1-", "web", "nvidia.com/gpu", ("GPU-7d8429d5-",)),
}


def parsed(source: str, text: str) -> ParseResult:
    return sources()[source].parse(text, None)


def only(found: ParseResult) -> ContainerRef | None:
    assert found.error is None
    assert found.containers is not None
    assert len(found.containers) <= 1
    return found.containers[0] if found.containers else None


def begins(value: str | None, beginning: str) -> bool:
    return value is None if not beginning else value is not None and value.startswith(beginning)


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_container_of_a_process(name: str, captures: Path) -> None:
    source = "proc-mountinfo" if name.startswith("mountinfo") else "proc-cgroup"
    found = parsed(source, (captures / "cgroup" / name).read_text())
    ref, expected = only(found), CONTAINERS[name]
    if expected is None:
        assert ref is None
    else:
        assert ref is not None
        pod, container, container_name = expected
        assert begins(ref.pod_uid, pod)
        assert begins(ref.container_id, container)
        assert ref.container_name == container_name
        assert len(ref.pod_uid or 36 * "x") == 36
        assert len(ref.container_id or 64 * "x") == 64
    assert [r.line for r in found.rejected] == (["other_line"] if "garbage" in name else [])


def test_single_lines(captures: Path) -> None:
    rows = [line.split("\t") for line in (captures / "cgroup" / "lines_open.tsv").read_text().splitlines()]
    assert len(rows) > 10
    for case, line, pod, container, *_ in rows[1:]:
        ref = only(parsed("proc-cgroup", line)) or ContainerRef()
        assert (ref.pod_uid or "", ref.container_id or "") == (pod, container), case


def test_a_hidden_path_is_found_by_the_mounts(captures: Path) -> None:
    capture = json.loads((captures / "cgroup" / "v2_docker_ns-root_mountinfo.json").read_text())
    files = {Path(path).name: "\n".join(lines) for path, lines in capture["files"].items()}
    assert location_from_cgroup(files["cgroup"]).hidden
    assert only(parsed("proc-cgroup", files["cgroup"])) is None
    ref = only(parsed("proc-mountinfo", files["mountinfo"]))
    assert ref == ContainerRef(capture["podId"], capture["containerId"])


@pytest.mark.parametrize("name", GRANTS)
def test_devices_of_a_checkpoint(name: str, captures: Path) -> None:
    found = parsed("kubelet-checkpoint", (captures / "k8s" / name).read_text())
    assert found.error is None
    assert found.allocations is not None
    [grant] = found.allocations
    pod, container, resource, ids = GRANTS[name]
    assert grant.pod_uid.startswith(pod)
    assert (grant.container_name, grant.resource_name) == (container, resource)
    assert len(grant.device_ids) == len(ids)
    assert all(map(str.startswith, grant.device_ids, ids))
    assert sorted(grant.visible_devices) == sorted(grant.device_ids)  # none of these plugins shares cards
    assert found.rejected == ()


def test_no_capture_is_left_out(captures: Path) -> None:
    here = {path.name for path in (captures / "cgroup").iterdir()}
    assert here - CONTAINERS.keys() == {"lines_open.tsv", "v2_docker_ns-root_mountinfo.json"}
    assert {path.name for path in (captures / "k8s").glob("checkpoint*")} == GRANTS.keys()
