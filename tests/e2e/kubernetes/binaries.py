"""The programs that are built from Go modules under go/: each is built once and kept.

Programs of one module have the same versions of what they share, which Go compiles once for all of them.
Go's own caches make a second build cheap, but a machine that has only our cache folder needs none of them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cache import Say, cache_folder, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import ClusterError
from tests.e2e.kubernetes.golang import MODULES, Go, find_go, go_environment

_BUILD_SECONDS = 3600.0  # Kubernetes takes 8 minutes on two idle cores
_DOWNLOAD_SECONDS = 600.0
_KUBERNETES_LINKS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")


@dataclass(frozen=True, slots=True)
class _Module:
    packages: Mapping[str, str]  # program -> package
    links: tuple[str, ...] = ()  # other names of the one program
    version_of: str | None = None  # the module whose version the program must be told
    tags: tuple[str, ...] = ()  # of the build, beside those of all
    folder: str | None = None  # under go/, where it is not the name


_KUBERNETES = _Module({"kubernetes": "."}, _KUBERNETES_LINKS, "k8s.io/kubernetes")
_MODULES = {
    "cluster": _KUBERNETES,
    "helm": _Module({"helm": "helm.sh/helm/v3/cmd/helm"}, folder="cluster"),
    "nfd": _Module(
        {
            "nfd-master": "sigs.k8s.io/node-feature-discovery/cmd/nfd-master",
            "nfd-worker": "sigs.k8s.io/node-feature-discovery/cmd/nfd-worker",
        }
    ),
    # Debian's finds no pods. This one finds nothing else: the clouds' libraries would be most of it.
    "prometheus": _Module(
        {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
        tags=("remove_all_sd", "enable_kubernetes_sd"),
        folder="cluster",
    ),
}


def program(name: str, say: Say = to_stderr) -> Path:
    """A program by its name (kubectl, kubelet, helm, nfd-worker ...), built if it has not been.
    Raises ClusterError."""
    for which, module in _MODULES.items():
        if name in module.packages or name in module.links:
            return _built(which, module, say) / name
    known = sorted(n for m in _MODULES.values() for n in (*m.packages, *m.links))
    raise ValueError(f"no Go module here makes {name}; they make {', '.join(known)}")


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


def _built(name: str, module: _Module, say: Say) -> Path:
    source = MODULES / (module.folder or name)
    go = find_go(say)
    tags = ",".join(("grpcnotrace", *module.tags))
    flags = ["-mod=readonly", "-buildvcs=false", "-trimpath", f"-tags={tags}"]
    flags.append(f"-ldflags={_linker_flags(module, source)}")
    files = [path for path in sorted(source.iterdir()) if path.suffix in (".go", ".mod", ".sum")]
    ingredients: list[str | bytes] = [go.version, *flags, *(path.read_bytes() for path in files)]
    folder = cache_folder() / "bin" / f"{name}-{key_of(ingredients)}"

    def make(begun: Path) -> None:
        _build(go, source, module, flags, begun)

    return made_once(folder, make, f"{', '.join(module.packages)} with Go", say=say, seconds=_BUILD_SECONDS)


def _build(go: Go, source: Path, module: _Module, flags: list[str], begun: Path) -> None:
    for program_name, package in module.packages.items():
        command = [str(go.program), "build", *flags, "-o", str(begun / program_name), package]
        run(command, environment=go_environment(), folder=source, seconds=_BUILD_SECONDS)
    for link in module.links:
        (begun / link).symlink_to(next(iter(module.packages)))


def _linker_flags(module: _Module, source: Path) -> str:
    """Without debug information. A Kubernetes that is not told its version says that it is v0.0.0, and
    then speaks of itself as older than everything."""
    flags = "-s -w"
    if module.version_of is not None:
        required = re.search(
            rf"{re.escape(module.version_of)} (v(\d+)\.(\d+)\S*)", (source / "go.mod").read_text()
        )
        assert required is not None, f"{source} does not require {module.version_of}"
        version, major, minor = required.groups()
        told = {
            "k8s.io/component-base/version.gitVersion": version,
            "k8s.io/component-base/version.gitMajor": major,
            "k8s.io/component-base/version.gitMinor": minor,
            "k8s.io/client-go/pkg/version.gitVersion": version,
        }
        flags += "".join(f" -X {variable}={value}" for variable, value in told.items())
    return flags
