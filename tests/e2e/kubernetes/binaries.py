"""The programs that are built from the Go modules under go/: each is built once and kept.

Most are of one module so that all have the same versions of what they share, which Go compiles once for all.
Go's own caches make a second build cheap, but a machine that has only our cache folder needs none of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cache import Say, cache_folder, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import ClusterError
from tests.e2e.kubernetes.golang import MODULE, Go, find_go, go_environment

_BUILD_SECONDS = 3600.0  # Kubernetes takes 8 minutes on two idle cores
_DOWNLOAD_SECONDS = 600.0
_KUBERNETES_LINKS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")


@dataclass(frozen=True, slots=True)
class _Build:
    packages: Mapping[str, str]  # program -> package
    links: tuple[str, ...] = ()  # other names of the one program
    version_of: str | None = None  # the module whose version the program must be told
    tags: tuple[str, ...] = ()  # beside those of all
    folder: Path = MODULE  # of the Go module


_BUILDS = {
    "cluster": _Build({"kubernetes": "."}, _KUBERNETES_LINKS, "k8s.io/kubernetes"),
    "helm": _Build({"helm": "helm.sh/helm/v3/cmd/helm"}),
    "nfd": _Build(
        {
            "nfd-master": "sigs.k8s.io/node-feature-discovery/cmd/nfd-master",
            "nfd-worker": "sigs.k8s.io/node-feature-discovery/cmd/nfd-worker",
        }
    ),
    # Debian's finds no pods. This one finds nothing else: the clouds' libraries would be most of it.
    "prometheus": _Build(
        {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
        tags=("remove_all_sd", "enable_kubernetes_sd"),
    ),
    # Of a module of its own: it needs another Prometheus than the one above.
    "thanos": _Build(
        {"thanos": "github.com/thanos-io/thanos/cmd/thanos"}, tags=("slicelabels",), folder=MODULE / "thanos"
    ),
}


def program(name: str, say: Say = to_stderr) -> Path:
    """A program by its name (kubectl, kubelet, helm, nfd-worker ...), built if it has not been.
    Raises ClusterError."""
    for which, build in _BUILDS.items():
        if name in build.packages or name in build.links:
            return _built(which, build, say) / name
    known = sorted(n for build in _BUILDS.values() for n in (*build.packages, *build.links))
    raise ValueError(f"no Go module here makes {name}; it makes {', '.join(known)}")


def all_programs(say: Say = to_stderr) -> None:
    """Those of the cluster first, which most tests wait for. Raises ClusterError."""
    for which, build in _BUILDS.items():
        _built(which, build, say)


def version_of(module: str) -> tuple[str, str]:
    """Version and checksum of one of the modules that the programs are made of."""
    for line in (MODULE / "go.sum").read_text().splitlines():
        name, version, checksum = line.split()
        if name == module and not version.endswith("/go.mod"):
            return version, checksum
    raise LookupError(module)


def module_files(module: str, version: str, checksum: str, say: Say = to_stderr) -> Path:
    """The folder with a module's files, read-only, for what is in it beside code: CRDs and the like. The
    checksum is the one that go.sum files have (`h1:...`). Raises ClusterError."""
    command = [str(find_go(say).program), "mod", "download", "-json", f"{module}@{version}"]
    answer = json.loads(
        run(command, environment=go_environment(), folder=cache_folder(), seconds=_DOWNLOAD_SECONDS)
    )
    if answer["Sum"] != checksum:
        raise ClusterError(f"{module}@{version} has the checksum {answer['Sum']}, not {checksum}")
    return Path(answer["Dir"])


def _built(name: str, build: _Build, say: Say) -> Path:
    go = find_go(say)
    tags = ",".join(("grpcnotrace", *build.tags))
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", f"-tags={tags}"]
    flags.append(f"-ldflags={_linker_flags(build)}")
    files = [path for path in sorted(build.folder.iterdir()) if path.suffix in (".go", ".mod", ".sum")]
    ingredients: list[str | bytes] = [go.version, *flags, *(path.read_bytes() for path in files)]
    folder = cache_folder() / "bin" / f"{name}-{key_of(ingredients)}"

    def make(begun: Path) -> None:
        _make(go, build, flags, begun)

    return made_once(folder, make, f"{', '.join(build.packages)} with Go", say=say, seconds=_BUILD_SECONDS)


def _make(go: Go, build: _Build, flags: list[str], begun: Path) -> None:
    for program_name, package in build.packages.items():
        command = [str(go.program), "build", *flags, "-o", str(begun / program_name), package]
        run(command, environment=go_environment(), folder=build.folder, seconds=_BUILD_SECONDS)
    for link in build.links:
        (begun / link).symlink_to(next(iter(build.packages)))


def _linker_flags(build: _Build) -> str:
    """Without debug information. A Kubernetes that is not told its version says that it is v0.0.0, and
    then speaks of itself as older than everything."""
    flags = "-s -w"
    if build.version_of is not None:
        version, _ = version_of(build.version_of)
        major, minor, _ = version.removeprefix("v").split(".")
        told = {
            "k8s.io/component-base/version.gitVersion": version,
            "k8s.io/component-base/version.gitMajor": major,
            "k8s.io/component-base/version.gitMinor": minor,
            "k8s.io/client-go/pkg/version.gitVersion": version,
        }
        flags += "".join(f" -X {variable}={value}" for variable, value in told.items())
    return flags
