"""Finds the pod and container of a process, or its Slurm job or systemd unit, in `/proc/<pid>/cgroup` and
`/proc/<pid>/mountinfo`.

There are many layouts: cgroup v1, v2 and hybrid, systemd and cgroupfs drivers, containerd, CRI-O, docker,
podman, nodes that are containers, and other cgroup namespaces. All have this in common: a pod's uid follows
`pod`, a container's id has 64 hexadecimal digits, and the innermost match is the right one.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from accelscope.parsing import ContainerRef, ParseError, ParseResult, Rejections

UID_PATTERN = (  # some layouts mix separators; 32 digits are the config hash of a static pod
    r"[0-9a-fA-F]{8}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{12}|[0-9a-fA-F]{32}"
)
_POD = re.compile(rf"(?:^|[-/])pod({UID_PATTERN})(?=[/.:]|\Z)")
_CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_SLURM_JOB = re.compile(
    r"/(?:slurm(?:_[^/]*)?|(?:[^/]*_)?slurmstepd\.scope)/(?:uid_[0-9]+/)?job_([0-9]{1,20})(?=/|\Z)"
)
_UNIT = re.compile(r"/([^/]+\.(?:service|scope))(?=/|\Z)")
_NO_UNIT = re.compile(r"session-[^/]*\.scope|init\.scope")
_USER = re.compile(r"/user-([0-9]{1,10})\.slice(?=/|\Z)|/slurm[^/]*/uid_([0-9]{1,10})/job_")
_ROOT_OR_PARENTS = re.compile(r"(?:/\.\.)*/?")
_LONGEST_NAME = 255  # of a folder, on Linux
_DELETED = " (deleted)"  # suffix for a removed cgroup of a process that is ending


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProcessLocation:
    """Where a process runs, according to one file of `/proc`. In a pod or a container, `unit` and `slurm_job`
    are those inside it."""

    pod_uid: str | None = None  # with dashes, or a static pod's config hash
    container_id: str | None = None
    container_name: str | None = None
    slurm_job: str | None = None
    unit: str | None = None  # of systemd: sshd.service
    uid: int | None = None  # of the user whose slice it is in
    hidden: bool = False  # hidden by another cgroup namespace; it does not mean "on the host"
    outer_ids: tuple[str, ...] = ()  # ids of the pod's containers in which this container runs

    @property
    def in_container(self) -> bool:
        return self.pod_uid is not None or self.container_id is not None

    def ref(self) -> ContainerRef | None:
        if not self.in_container:
            return None
        return ContainerRef(self.pod_uid, self.container_id, self.container_name)


@dataclass(frozen=True, slots=True)
class ContainerPath:
    """Pod and container in the path of a cgroup."""

    pod_uid: str | None
    container_id: str | None
    end: int  # of the match in the path
    outer_ids: tuple[str, ...] = ()  # ids of the pod's containers in which this container runs

    @property
    def rank(self) -> int:
        """Prefers pod and container, then a pod, then a container."""
        return 2 * (self.pod_uid is not None) + (self.container_id is not None)


BEST_RANK = 3
_NO_CONTAINER = ContainerPath(None, None, 0)


def normal_uid(text: str) -> str:
    return text.lower().replace("_", "-")


def container_path(path: str) -> ContainerPath:
    pod = _last(_POD, path) if "pod" in path else None
    after = pod.end() if pod else 0
    uid = normal_uid(pod[1]) if pod else None
    containers = list(_CONTAINER.finditer(path, after))
    if not containers:
        return ContainerPath(uid, None, after)
    found = containers[-1]
    # The path of a container's monitor contains the container's id, but the monitor runs outside.
    segment = path[path.rfind("/", 0, found.start()) + 1 : found.start()]
    rest, _, _ = path[found.end() :].partition("/")
    monitor = "conmon" in segment or "conmon" in rest
    outer = dict.fromkeys(match[0] for match in containers if match[0] != found[0]) if pod else ()
    return ContainerPath(uid, None if monitor else found[0], found.end(), tuple(outer))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def location_from_cgroup(text: str) -> ProcessLocation:
    """From the text of `/proc/<pid>/cgroup`. Malformed lines are skipped."""
    return _location(_paths(text, None))


def parse_cgroup(text: str) -> ParseResult:
    """The containers of all processes in the text. A saved file may contain several processes."""
    rejections = Rejections()
    refs: dict[ContainerRef, None] = {}
    is_cgroup = False
    for block in _cgroup_blocks(text):
        paths = _paths(block, rejections)
        is_cgroup |= bool(paths)
        ref = _location(paths).ref() if paths else None
        if ref is not None:
            refs[ref] = None
    if not is_cgroup:
        error = ParseError("not_a_cgroup_file", "no line has the form hierarchy:controllers:/path")
        if not text.strip("\ufeff \t\r\n"):
            error = ParseError("empty", "the file is empty")
        return ParseResult(error=error, rejected=rejections.listed())
    return ParseResult(containers=tuple(refs), rejected=rejections.listed())


def _cgroup_blocks(text: str) -> Iterator[str]:
    """Splits the text into the lines of each process. A process has each hierarchy once, so a repeated number
    begins the next process."""
    block: list[str] = []
    hierarchies: set[str] = set()
    for line in text.removeprefix("\ufeff").split("\n"):
        number, colon, _ = line.strip().partition(":")
        if colon and number.isascii() and number.isdigit():
            if number in hierarchies:
                yield "\n".join(block)
                block, hierarchies = [], set()
            hierarchies.add(number)
        block.append(line)
    yield "\n".join(block)


def _paths(text: str, rejections: Rejections | None) -> list[str]:
    """The distinct paths, most reliable first: systemd's hierarchy, other v1 controllers, and the unified
    hierarchy, which on a hybrid host may contain only the container runtime's service."""
    systemd: list[str] = []
    controllers: list[str] = []
    unified: list[str] = []
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip(" \t\r")
        cells = line.split(":", 2)  # paths may contain colons
        if len(cells) < 3 or not (cells[0].isascii() and cells[0].isdigit()):
            if line and rejections is not None:
                rejections.add(line, "not_a_cgroup_line")
            continue
        path = cells[2].removesuffix(_DELETED)
        if not cells[1]:
            unified.append(path)
        elif cells[1] in ("name=systemd", "systemd"):
            systemd.append(path)
        else:
            controllers.append(path)
    # A process has the same path in most hierarchies: a dozen lines usually have two paths.
    return list(dict.fromkeys((*systemd, *controllers, *unified)))


def _location(paths: list[str]) -> ProcessLocation:
    best, best_path = _NO_CONTAINER, ""
    for path in paths:
        found = container_path(path)
        if found.rank > best.rank:
            best, best_path = found, path
        if best.rank == BEST_RANK:
            break
    # In a container only units inside it count: those outside are the runtime's and the node's.
    unit = _unit(best_path[best.end :]) if best.rank else _first(_unit, paths)
    job = _first(_slurm_job, paths)
    uid = _first(_user, (best_path, *paths))
    hidden = not best.rank and all(_ROOT_OR_PARENTS.fullmatch(path) for path in paths)
    return ProcessLocation(best.pod_uid, best.container_id, None, job, unit, uid, hidden, best.outer_ids)


def _first(find: Callable[[str], T | None], paths: Iterable[str]) -> T | None:
    return next((found for path in paths if (found := find(path)) is not None), None)


def _unit(path: str) -> str | None:
    """The innermost one. Login sessions are skipped: their names mean nothing to users."""
    unit = None
    for found in _UNIT.finditer(path):
        name = found[1]
        if len(name) <= _LONGEST_NAME and not _NO_UNIT.fullmatch(name) and not _CONTAINER.search(name):
            unit = name
    return unit


def _slurm_job(path: str) -> str | None:
    found = _SLURM_JOB.search(path) if "job_" in path else None
    return found[1] if found else None


def _user(path: str) -> int | None:
    found = _USER.search(path)
    return int(found[1] or found[2]) if found else None


# `/proc/<pid>/mountinfo`, for a process whose cgroup is hidden by a namespace. It names pod and container in
# three ways, in order of preference: the root of a cgroup mount, the files that the kubelet mounts into each
# container, and the folder of a container engine where there is no kubelet. Under Kubernetes the last is the
# pause container's, and ids of layers and volumes look like those of containers.

_ID = r"[0-9a-f]{64}"
_CONTAINER_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# The kubelet's folder may be anywhere. If it is a file system of its own, a root begins with /pods/.
_KUBELET_FILE = re.compile(rf"/pods/({UID_PATTERN})/(?:etc-hosts|containers/({_CONTAINER_NAME})/[^/]+)\Z")
_KUBERNETES_ROOT = re.compile(rf"/pods/(?:{UID_PATTERN})/|/sandboxes/{_ID}/")
_SERVICE_ACCOUNT = "/kubernetes.io/serviceaccount"
_ENGINE_FILE = re.compile(  # of docker, containerd's nerdctl, podman
    rf"/containers/(?:[^/]+/)?({_ID})/(?:hostname|hosts|resolv\.conf)\Z"
    rf"|/overlay-containers/({_ID})/userdata/(?:hostname|hosts|resolv\.conf|\.containerenv)\Z"
)
_OWN_POINTS = frozenset({"/etc/hosts", "/dev/termination-log"})
_SIBLING = re.compile(r"(?:/\.\.)+/[^/]*")  # next to the reading process: in the same pod
_ESCAPE = re.compile(r"\\([01][0-7]{2})")  # of spaces, tabs, newlines and backslashes
_MOUNTINFO_DELETED = "//deleted"  # suffix for a file that was removed while mounted


@dataclass(slots=True)
class _MountFacts:
    """Signs of a pod or container in the mounts of one process."""

    mounts: int = 0
    cgroup: ContainerPath = _NO_CONTAINER
    cgroup_path: str = ""
    pod_uid: str | None = None  # by the kubelet's files
    pod_uid_is_own: bool = (
        False  # found at a mount point that each container has; elsewhere it may be another's
    )
    names: dict[str, str] | None = None  # of containers, by the uid of their pod
    engine_id: str | None = None
    kubernetes: bool = False

    def location(self) -> ProcessLocation:
        if self.cgroup.pod_uid is not None:
            cgroup = self.cgroup
            return self._add_name(
                ProcessLocation(cgroup.pod_uid, cgroup.container_id, outer_ids=cgroup.outer_ids)
            )
        if self.pod_uid is not None:
            # Without a pod in the path, the id may be that of a container that is the node itself.
            is_sibling = _SIBLING.fullmatch(self.cgroup_path) is not None
            return self._add_name(
                ProcessLocation(self.pod_uid, self.cgroup.container_id if is_sibling else None)
            )
        if self.cgroup.container_id is not None:
            return ProcessLocation(container_id=self.cgroup.container_id)
        if self.engine_id is not None and not self.kubernetes:
            return ProcessLocation(container_id=self.engine_id)
        return ProcessLocation(hidden=True)

    def _add_name(self, location: ProcessLocation) -> ProcessLocation:
        return replace(location, container_name=(self.names or {}).get(location.pod_uid or ""))


def location_from_mountinfo(text: str) -> ProcessLocation:
    """From the text of `/proc/<pid>/mountinfo`; `hidden` if it names no container."""
    return _read_mounts(text, None).location()


def parse_mountinfo(text: str) -> ParseResult:
    """The containers of all processes in the text. A saved file may contain several processes."""
    rejections = Rejections()
    refs: dict[ContainerRef, None] = {}
    mounts = 0
    for block in _mount_blocks(text):
        facts = _read_mounts(block, rejections)
        mounts += facts.mounts
        ref = facts.location().ref()
        if ref is not None:
            refs[ref] = None
    if not mounts:
        error = ParseError(
            "not_a_mountinfo_file", "no line has the form: id parent device root point … - type"
        )
        if not text.strip("\ufeff \t\r\n"):
            error = ParseError("empty", "the file is empty")
        return ParseResult(error=error, rejected=rejections.listed())
    return ParseResult(containers=tuple(refs), rejected=rejections.listed())


def _mount_blocks(text: str) -> Iterator[str]:
    """Splits the text into the lines of each process. A root mount whose parent is not among the mounts
    before it begins the next process."""
    block: list[str] = []
    ids: set[str] = set()
    for line in text.removeprefix("\ufeff").split("\n"):
        cells = line.split(" ", 5)
        if len(cells) == 6 and cells[0].isascii() and cells[0].isdigit():
            if ids and cells[4] == "/" and cells[1] not in ids:
                yield "\n".join(block)
                block, ids = [], set()
            ids.add(cells[0])
        block.append(line)
    yield "\n".join(block)


def _read_mounts(text: str, rejections: Rejections | None) -> _MountFacts:
    facts = _MountFacts()
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip(" \t\r")
        mount, separator, kind = line.partition(" - ")
        cells = mount.split(" ", 6)
        if not separator or len(cells) < 6 or not (cells[0].isascii() and cells[0].isdigit()):
            if line and rejections is not None:
                rejections.add(line, "not_a_mount")
            continue
        facts.mounts += 1
        _add(facts, _unescape(cells[3]).removesuffix(_MOUNTINFO_DELETED), cells[4], kind.partition(" ")[0])
    return facts


def _add(facts: _MountFacts, root: str, point: str, kind: str) -> None:
    if kind in ("cgroup", "cgroup2"):
        found = _NO_CONTAINER if facts.cgroup.rank == BEST_RANK else container_path(root)
        if found.rank > facts.cgroup.rank:
            facts.cgroup, facts.cgroup_path = found, root
        return
    if point.endswith(_SERVICE_ACCOUNT):
        facts.kubernetes = True
    if len(root) < 32:  # digits of the shortest id
        return
    if _KUBERNETES_ROOT.search(root):
        facts.kubernetes = True
    if kubelet_file := _KUBELET_FILE.search(root):
        uid = normal_uid(kubelet_file[1])
        own = point in _OWN_POINTS  # where the kubelet mounts it for the container itself
        if facts.pod_uid is None or (own and not facts.pod_uid_is_own):
            facts.pod_uid, facts.pod_uid_is_own = uid, own
        if kubelet_file[2]:
            facts.names = facts.names or {}
            facts.names.setdefault(uid, kubelet_file[2])
    elif facts.engine_id is None and (engine_file := _ENGINE_FILE.search(root)):
        facts.engine_id = engine_file[1] or engine_file[2]


def _unescape(path: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), path) if "\\" in path else path
