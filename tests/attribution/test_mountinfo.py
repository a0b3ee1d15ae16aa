"""Pod and container from the mounts of a process whose cgroup path is hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.attribution.cgroup import ProcessLocation, location_from_mountinfo, parse_mountinfo

UID = "7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"
OTHER = "11112222-3333-4444-5555-666677778888"
HASH = "8a6e0804bd678dd5e4c5a1d3f2b7c9e0"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
ID = "3fa9" * 16
PAUSE = "77c0" * 16
LAYER = "0de1" * 16


def mount(root: str, point: str, kind: str = "ext4", *optional: str) -> str:
    mounted = " ".join(("41 40 259:2", root, point, "rw,relatime", *optional))
    return f"{mounted} - {kind} /dev/sda1 rw,lowerdir=/var/lib/docker/overlay2/{LAYER}/diff"


KUBELET = "/var/lib/kubelet"
OVERLAY = mount("/", "/", "overlay")
CGROUP_ROOT = mount("/", "/sys/fs/cgroup", "cgroup2")
HOSTS = mount(f"{KUBELET}/pods/{UID}/etc-hosts", "/etc/hosts")
LOG = mount(f"{KUBELET}/pods/{UID}/containers/trainer/4be1a09c", "/dev/termination-log")
ELSEWHERE = mount(f"{KUBELET}/pods/{OTHER}/etc-hosts", "/inspected/hosts")
PAUSE_HOSTNAME = mount(f"/var/lib/docker/containers/{PAUSE}/hostname", "/etc/hostname")
SANDBOX = mount(f"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{PAUSE}/hostname", "/etc/hostname")
TOKEN = mount("/", "/run/secrets/kubernetes.io/serviceaccount", "tmpfs")
VOLUME = mount(f"/var/lib/docker/volumes/{LAYER}/_data", "/data")
NAMED = ProcessLocation(UID, container_name="trainer")


def cgroup(root: str, kind: str = "cgroup2") -> str:
    return mount(root, "/sys/fs/cgroup", kind)


CASES = {
    "cgroup v2": ([OVERLAY, cgroup(f"/../../{SLICE}/docker-{ID}.scope")], ProcessLocation(UID, ID)),
    "cgroup v1": ([cgroup(f"/kubepods/pod{UID}/{ID}", "cgroup")], ProcessLocation(UID, ID)),
    "docker in a pod": (
        [cgroup(f"/kubepods/pod{UID}/{ID[::-1]}/docker/{ID}")],
        ProcessLocation(UID, ID, outer_ids=(ID[::-1],)),
    ),
    "a static pod": ([cgroup(f"/kubepods/pod{HASH}/{ID}")], ProcessLocation(HASH, ID)),
    "the one with a pod wins": (
        [cgroup(f"/docker/{LAYER}"), cgroup(f"/kubepods/pod{UID}/{ID}")],
        ProcessLocation(UID, ID),
    ),
    "the name comes along": (
        [cgroup(f"/../{SLICE}/docker-{ID}.scope"), LOG, PAUSE_HOSTNAME],
        ProcessLocation(UID, ID, "trainer"),
    ),
    "no name of another pod's": (
        [cgroup(f"/kubepods/pod{OTHER}/{ID}"), LOG],
        ProcessLocation(OTHER, ID),
    ),
    "docker under the kubelet": ([OVERLAY, CGROUP_ROOT, LOG, PAUSE_HOSTNAME, HOSTS], NAMED),
    "containerd": ([CGROUP_ROOT, SANDBOX, HOSTS, LOG], NAMED),
    "no log": ([CGROUP_ROOT, PAUSE_HOSTNAME, HOSTS], ProcessLocation(UID)),
    "another folder": (
        [mount(f"/data/k0s/pods/{UID}/containers/a-b/1f", "/dev/termination-log")],
        ProcessLocation(UID, container_name="a-b"),
    ),
    "another pod's files elsewhere": ([ELSEWHERE, HOSTS], ProcessLocation(UID)),
    "another pod's files elsewhere, last": ([HOSTS, ELSEWHERE], ProcessLocation(UID)),
    "the first of two own": (
        [HOSTS, mount(f"{KUBELET}/pods/{OTHER}/containers/b/1f", "/dev/termination-log")],
        ProcessLocation(UID),
    ),
    "only another pod's files": ([ELSEWHERE], ProcessLocation(OTHER)),
    "the first of equal cgroups": (
        [cgroup(f"/kubepods/pod{UID}/{ID}"), cgroup(f"/kubepods/pod{OTHER}/{LAYER}")],
        ProcessLocation(UID, ID),
    ),
    "the first of equal containers": (
        [cgroup(f"/docker/{ID}"), cgroup(f"/docker/{LAYER}")],
        ProcessLocation(container_id=ID),
    ),
    "a source with a dash": ([f"{cgroup(f'/kubepods/pod{UID}/{ID}')} - x"], ProcessLocation(UID, ID)),
    "a file system of its own": ([mount(f"/pods/{UID}/etc-hosts", "/etc/hosts")], ProcessLocation(UID)),
    "deleted": ([mount(f"{KUBELET}/pods/{UID}/etc-hosts//deleted", "/etc/hosts")], ProcessLocation(UID)),
    "blanks": ([mount(f"/my\\040disk/pods/{UID}/etc-hosts", "/etc/hosts")], ProcessLocation(UID)),
    "an escaped letter": ([mount(f"/x/po\\144s/{UID}/etc-hosts", "/etc/hosts")], ProcessLocation(UID)),
    "options": (
        [mount(f"/pods/{UID}/etc-hosts", "/etc/hosts", "ext4", "shared:5", "master:1")],
        ProcessLocation(UID),
    ),
    "static pod's files": ([mount(f"{KUBELET}/pods/{HASH}/etc-hosts", "/etc/hosts")], ProcessLocation(HASH)),
    "beside the reader": ([cgroup(f"/../crio-{ID}.scope"), LOG], ProcessLocation(UID, ID, "trainer")),
    "the node's own container": ([cgroup(f"/docker/{LAYER}"), LOG], NAMED),
    "a volume of a pod tells nothing": (
        [CGROUP_ROOT, mount(f"{KUBELET}/pods/{UID}/volumes/kubernetes.io~configmap/x", "/x"), PAUSE_HOSTNAME],
        ProcessLocation(hidden=True),
    ),
    "an engine's file beside a sandbox": ([SANDBOX, PAUSE_HOSTNAME], ProcessLocation(hidden=True)),
    "only the sandbox": ([CGROUP_ROOT, SANDBOX], ProcessLocation(hidden=True)),
    "the pause container": ([CGROUP_ROOT, PAUSE_HOSTNAME, TOKEN], ProcessLocation(hidden=True)),
    "docker": (
        [OVERLAY, CGROUP_ROOT, VOLUME, mount(f"/var/lib/docker/containers/{ID}/hosts", "/etc/hosts")],
        ProcessLocation(container_id=ID),
    ),
    "docker elsewhere": (
        [mount(f"/containers/{ID}/resolv.conf", "/etc/resolv.conf")],
        ProcessLocation(container_id=ID),
    ),
    "nerdctl": (
        [mount(f"/var/lib/nerdctl/1935db59/containers/default/{ID}/resolv.conf", "/etc/resolv.conf")],
        ProcessLocation(container_id=ID),
    ),
    "podman": (
        [mount(f"/containers/storage/overlay-containers/{ID}/userdata/.containerenv", "/run/.containerenv")],
        ProcessLocation(container_id=ID),
    ),
    "docker by its cgroup": ([cgroup(f"/system.slice/docker-{ID}.scope")], ProcessLocation(container_id=ID)),
    "layers and volumes": ([OVERLAY, CGROUP_ROOT, VOLUME], ProcessLocation(hidden=True)),
    "another file of docker's": (
        [mount(f"/var/lib/docker/containers/{ID}/mounts/shm", "/dev/shm")],
        ProcessLocation(hidden=True),
    ),
    "the host": (
        [mount("/", "/"), CGROUP_ROOT, mount("net:[4026531840]", "/run/netns/a", "nsfs")],
        ProcessLocation(hidden=True),
    ),
    "no name of a container": (
        [mount(f"{KUBELET}/pods/{UID}/containers/A_b/1f", "/dev/termination-log")],
        ProcessLocation(hidden=True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_mounts(name: str) -> None:
    lines, expected = CASES[name]
    assert location_from_mountinfo("\n".join(lines)) == expected
    assert location_from_mountinfo("\ufeff" + "\r\n".join([*lines, "no mount", ""])) == expected


def test_a_process_outside_containers_is_no_error() -> None:
    parsed = parse_mountinfo(f"{OVERLAY}\nrubbish\n")
    assert (parsed.containers, parsed.error) == ((), None)
    assert [(r.line, r.reason) for r in parsed.rejected] == [("rubbish", "not_a_mount")]


def test_one_container_of_one_process() -> None:
    parsed = parse_mountinfo("\n".join([cgroup(f"/kubepods/pod{UID}/{ID}", "cgroup")] * 12 + [LOG]))
    assert parsed.containers is not None
    [ref] = parsed.containers
    assert (ref.pod_uid, ref.container_id, ref.container_name) == (UID, ID, "trainer")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("null", "not_a_mountinfo_file"),
        ('{"Data": 1 - 2}', "not_a_mountinfo_file"),
        ("sysfs /sys sysfs rw,nosuid 0 0", "not_a_mountinfo_file"),
        (f"x 40 259:2 /pods/{UID}/etc-hosts /etc/hosts rw - ext4 a rw", "not_a_mountinfo_file"),
        (f"\u0664\u0661 40 259:2 /pods/{UID}/etc-hosts /etc/hosts rw - ext4 a rw", "not_a_mountinfo_file"),
        (f"41 40 259:2 /pods/{UID}/etc-hosts /etc/hosts rw", "not_a_mountinfo_file"),
        (f"41 40 259:2 /pods/{UID}/etc-hosts /etc/hosts - ext4 a rw", "not_a_mountinfo_file"),
    ],
)
def test_other_text_is_an_error_with_a_reason(text: str, reason: str) -> None:
    parsed = parse_mountinfo(text)
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert parsed.error.text
    assert [r.line for r in parsed.rejected] == ([text] if text.strip() else [])
    assert parsed.containers is None


@given(st.permutations([OVERLAY, CGROUP_ROOT, VOLUME, LOG, HOSTS, PAUSE_HOSTNAME, SANDBOX, TOKEN]))
def test_the_order_of_mounts_does_not_matter(lines: list[str]) -> None:
    assert location_from_mountinfo("\n".join(lines)) == NAMED


ROOTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "pods",
                UID,
                HASH,
                "containers",
                ID,
                PAUSE,
                "hostname",
                "etc-hosts",
                "trainer",
                "4be1",
                "sandboxes",
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=6,
).map("/".join)


@given(st.lists(st.tuples(ROOTS, st.sampled_from(["ext4", "cgroup2", "overlay"])), max_size=5))
def test_ids_of_sandbox_layers_and_volumes_are_ignored(mounts: list[tuple[str, str]]) -> None:
    lines = [mount("/" + root, "/x", kind) for root, kind in mounts]
    place = location_from_mountinfo("\n".join([*lines, SANDBOX, VOLUME, OVERLAY]))
    assert place.container_id != LAYER
    if not any(kind == "cgroup2" for _, kind in mounts):
        assert place.container_id is None
