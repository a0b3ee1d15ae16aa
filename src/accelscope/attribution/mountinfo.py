"""From `/proc/<pid>/mountinfo` to pod and container, for a process whose cgroup a namespace hides.

Three things tell, the first best: the folder of a cgroup mount, the files that the kubelet mounts into each
container, and the folder of a container engine where there is no kubelet. Under Kubernetes that last one is
the pause container's, and ids of layers and volumes look the same as a container's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accelscope.attribution.cgroup import (
    BEST_RANK,
    UID_PATTERN,
    ContainerPath,
    Place,
    container_path,
    normal_uid,
)
from accelscope.parsing.parsed import ContainerRef, Parsed, ParseError
from accelscope.parsing.rejections import Rejections

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
_DELETED = "//deleted"  # after the path of a file that was removed while mounted

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
    for block in _processes(text):
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


def _processes(text: str) -> Iterator[str]:
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
        _add(told, _unescaped(cells[3]).removesuffix(_DELETED), cells[4], kind.partition(" ")[0])
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
