"""From `/proc/<pid>/cgroup` to the pod and the container that a process lives in, or who else started it.

The layouts are many (cgroup v1, v2 and hybrid, systemd and cgroupfs drivers, containerd, CRI-O, docker,
podman, nodes that are containers themselves, other cgroup namespaces), and agree in this: a pod's uid follows
`pod`, a container's id is 64 hexadecimal digits, and what is innermost counts.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from accelscope.parsing import ContainerRef, Parsed, ParseError, Rejections

UID_PATTERN = (  # separators are mixed in some layouts; 32 digits are the config hash of a static pod
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
_NOTHING_BUT_UP = re.compile(r"(?:/\.\.)*/?")
_LONGEST_NAME = 255  # of a folder, on Linux
_DELETED = " (deleted)"  # after the path of a cgroup that was removed under a process that is ending


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process lives, as far as one file of `/proc` tells. In a pod or a container, `unit` and
    `slurm_job` are what runs inside of it."""

    pod_uid: str | None = None  # with dashes, or a static pod's config hash
    container_id: str | None = None
    container_name: str | None = None
    slurm_job: str | None = None
    unit: str | None = None  # of systemd: sshd.service
    uid: int | None = None  # of the user whose slice it is in
    hidden: bool = False  # the file says nothing: another cgroup namespace. It does not mean "on the host"
    outer_ids: tuple[str, ...] = ()  # of containers in the pod that the container runs in

    @property
    def in_container(self) -> bool:
        return self.pod_uid is not None or self.container_id is not None

    def ref(self) -> ContainerRef | None:
        if not self.in_container:
            return None
        return ContainerRef(self.pod_uid, self.container_id, self.container_name)


@dataclass(frozen=True, slots=True)
class ContainerPath:
    """What the path of a cgroup says of pods and containers."""

    pod_uid: str | None
    container_id: str | None
    end: int  # where in the path that is said
    outer_ids: tuple[str, ...] = ()  # of containers in the pod that the container runs in

    @property
    def rank(self) -> int:
        """Pod and container are better than a pod, a pod than a container, and that than nothing."""
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
    # The container's monitor bears the container's id, but lives outside of it.
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


def place_of(text: str) -> Place:
    """The place that a `/proc/<pid>/cgroup` tells. Lines that are none are skipped."""
    return _place(_paths(text, None))


def parse_cgroup(text: str) -> Parsed:
    """The containers of all processes in the text: people save several files as one."""
    rejections = Rejections()
    refs: dict[ContainerRef, None] = {}
    is_cgroup = False
    for block in _processes(text):
        paths = _paths(block, rejections)
        is_cgroup |= bool(paths)
        ref = _place(paths).ref() if paths else None
        if ref is not None:
            refs[ref] = None
    if not is_cgroup:
        error = ParseError("not_a_cgroup_file", "no line is a cgroup's: hierarchy:controllers:/path")
        if not text.strip("\ufeff \t\r\n"):
            error = ParseError("empty", "the file is empty")
        return Parsed(error=error, rejected=rejections.listed())
    return Parsed(containers=tuple(refs), rejected=rejections.listed())


def _processes(text: str) -> Iterator[str]:
    """The lines of each process. One process is in each hierarchy once, so that where a hierarchy's number
    comes again, the lines of the next one begin."""
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
    """The different paths, the ones to believe first: systemd's own hierarchy, those of other v1 controllers,
    and last the unified one, which on a hybrid host may name no more than the container runtime's service."""
    systemd: list[str] = []
    controllers: list[str] = []
    unified: list[str] = []
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip(" \t\r")
        cells = line.split(":", 2)  # paths have colons, too
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
    # A process has the same path in most hierarchies: a dozen lines are two paths.
    return list(dict.fromkeys((*systemd, *controllers, *unified)))


def _place(paths: list[str]) -> Place:
    best, best_path = _NO_CONTAINER, ""
    for path in paths:
        found = container_path(path)
        if found.rank > best.rank:
            best, best_path = found, path
        if best.rank == BEST_RANK:
            break
    # In a container, only what is inside of it: outside are the units of the runtime and of its node.
    unit = _unit(best_path[best.end :]) if best.rank else _first(_unit, paths)
    job = _first(_slurm_job, paths)
    uid = _first(_user, (best_path, *paths))
    hidden = not best.rank and all(_NOTHING_BUT_UP.fullmatch(path) for path in paths)
    return Place(best.pod_uid, best.container_id, None, job, unit, uid, hidden, best.outer_ids)


def _first(told: Callable[[str], T | None], paths: Iterable[str]) -> T | None:
    return next((found for path in paths if (found := told(path)) is not None), None)


def _unit(path: str) -> str | None:
    """The innermost one. A login session is no unit that anybody would know by its name."""
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


# --- mountinfo ------------------------------------------------------------
# From `/proc/<pid>/mountinfo` to pod and container, for a process whose cgroup a namespace hides.
#
# Three things tell, the first best: the folder of a cgroup mount, the files that the kubelet mounts into each
# container, and the folder of a container engine where there is no kubelet. Under Kubernetes that last one is
# the pause container's, and ids of layers and volumes look the same as a container's.


_ID = r"[0-9a-f]{64}"
_CONTAINER_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
# The kubelet's folder may be anywhere, also on a file system of its own: then a root begins with /pods/.
_KUBELET_FILE = re.compile(rf"/pods/({UID_PATTERN})/(?:etc-hosts|containers/({_CONTAINER_NAME})/[^/]+)\Z")
_OF_KUBERNETES = re.compile(rf"/pods/(?:{UID_PATTERN})/|/sandboxes/{_ID}/")
_SERVICE_ACCOUNT = "/kubernetes.io/serviceaccount"
_ENGINE_FILE = re.compile(  # of docker, containerd's nerdctl, podman
    rf"/containers/(?:[^/]+/)?({_ID})/(?:hostname|hosts|resolv\.conf)\Z"
    rf"|/overlay-containers/({_ID})/userdata/(?:hostname|hosts|resolv\.conf|\.containerenv)\Z"
)
_OWN_POINTS = frozenset({"/etc/hosts", "/dev/termination-log"})
_SIBLING = re.compile(r"(?:/\.\.)+/[^/]*")  # beside the one who reads: in the same pod
_ESCAPE = re.compile(r"\\([01][0-7]{2})")  # blanks, tabs, line ends, backslashes
_MOUNTINFO_DELETED = "//deleted"  # after the path of a file that was removed while mounted

_NOTHING = ContainerPath(None, None, 0)


@dataclass(slots=True)
class _Told:
    """By the mounts of one process."""

    mounts: int = 0
    cgroup: ContainerPath = _NOTHING
    cgroup_path: str = ""
    pod_uid: str | None = None  # by the kubelet's files
    pod_uid_is_own: bool = False  # mounted where each container has its own; elsewhere it may be another's
    names: dict[str, str] | None = None  # of containers, by the uid of their pod
    engine_id: str | None = None
    kubernetes: bool = False

    def place(self) -> Place:
        if self.cgroup.pod_uid is not None:
            told = self.cgroup
            return self._named(Place(told.pod_uid, told.container_id, outer_ids=told.outer_ids))
        if self.pod_uid is not None:
            # Without the pod in its path, an id may be that of the container which is the node.
            beside = _SIBLING.fullmatch(self.cgroup_path) is not None
            return self._named(Place(self.pod_uid, self.cgroup.container_id if beside else None))
        if self.cgroup.container_id is not None:
            return Place(container_id=self.cgroup.container_id)
        if self.engine_id is not None and not self.kubernetes:
            return Place(container_id=self.engine_id)
        return Place(hidden=True)

    def _named(self, place: Place) -> Place:
        return replace(place, container_name=(self.names or {}).get(place.pod_uid or ""))


def place_in_mounts(text: str) -> Place:
    """`hidden` if the mounts do not tell either."""
    return _told(text, None).place()


def parse_mountinfo(text: str) -> Parsed:
    """The containers of all processes in the text: people save several files as one."""
    rejections = Rejections()
    refs: dict[ContainerRef, None] = {}
    mounts = 0
    for block in _processes_mountinfo(text):
        told = _told(block, rejections)
        mounts += told.mounts
        ref = told.place().ref()
        if ref is not None:
            refs[ref] = None
    if not mounts:
        error = ParseError(
            "not_a_mountinfo_file", "no line is a mount's: id parent device root point … - type"
        )
        if not text.strip("\ufeff \t\r\n"):
            error = ParseError("empty", "the file is empty")
        return Parsed(error=error, rejected=rejections.listed())
    return Parsed(containers=tuple(refs), rejected=rejections.listed())


def _processes_mountinfo(text: str) -> Iterator[str]:
    """The lines of each process. The next one begins with a root whose parent is not among the mounts before
    it: that of another process's list."""
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


def _told(text: str, rejections: Rejections | None) -> _Told:
    told = _Told()
    for raw in text.removeprefix("\ufeff").split("\n"):
        line = raw.strip(" \t\r")
        mount, separator, kind = line.partition(" - ")
        cells = mount.split(" ", 6)
        if not separator or len(cells) < 6 or not (cells[0].isascii() and cells[0].isdigit()):
            if line and rejections is not None:
                rejections.add(line, "not_a_mount")
            continue
        told.mounts += 1
        _add(told, _unescaped(cells[3]).removesuffix(_MOUNTINFO_DELETED), cells[4], kind.partition(" ")[0])
    return told


def _add(told: _Told, root: str, point: str, kind: str) -> None:
    if kind in ("cgroup", "cgroup2"):
        found = _NOTHING if told.cgroup.rank == BEST_RANK else container_path(root)
        if found.rank > told.cgroup.rank:
            told.cgroup, told.cgroup_path = found, root
        return
    if point.endswith(_SERVICE_ACCOUNT):
        told.kubernetes = True
    if len(root) < 32:  # digits of the shortest id
        return
    if _OF_KUBERNETES.search(root):
        told.kubernetes = True
    if of_kubelet := _KUBELET_FILE.search(root):
        uid = normal_uid(of_kubelet[1])
        own = point in _OWN_POINTS  # where the kubelet mounts it for the container itself
        if told.pod_uid is None or (own and not told.pod_uid_is_own):
            told.pod_uid, told.pod_uid_is_own = uid, own
        if of_kubelet[2]:
            told.names = told.names or {}
            told.names.setdefault(uid, of_kubelet[2])
    elif told.engine_id is None and (of_engine := _ENGINE_FILE.search(root)):
        told.engine_id = of_engine[1] or of_engine[2]


def _unescaped(path: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), path) if "\\" in path else path
