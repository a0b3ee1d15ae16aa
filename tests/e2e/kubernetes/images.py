"""Container images without registry and Docker: Debian's buildah builds them, debootstrap makes the base.

What an image is made from is its key, so that an unchanged one costs nothing.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cache import Say, cache_folder, exclusive, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run

PAUSE_TAG = "localhost/pause:1"

_PAUSE_SOURCE = Path(__file__).with_name("pause.c")
_DEBIAN = "bookworm"  # its Python is the oldest that the project supports
_BUILD_SECONDS = 1200.0
# Nothing reads these in a container, and they are half of what debootstrap leaves.
_NEEDLESS = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")
_DOCKERFILE_OF_PAUSE = 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n'
_DOCKERFILE_OF_BASE = 'FROM scratch\nADD root.tar /\nCMD ["python3"]\n'


@dataclass(frozen=True, slots=True)
class Image:
    tag: str
    archive: Path  # oci-archive, for Cluster.import_image


def pause_program(say: Say = to_stderr) -> Path:
    """Static: a container holds no library, and the node's first process should need none."""

    def compile_it(folder: Path) -> None:
        run(["cc", "-Os", "-static", "-s", "-Wall", "-Werror", "-o", folder / "pause", _PAUSE_SOURCE])

    folder = cache_folder() / "pause" / key_of([_PAUSE_SOURCE.read_bytes()])
    return made_once(folder, compile_it, "the pause program", say=say, seconds=60) / "pause"


def pause_image(say: Say = to_stderr) -> Image:
    """What the container runtime starts first in every pod."""
    program = pause_program(say)
    return build_image(_DOCKERFILE_OF_PAUSE, program.parent, PAUSE_TAG, say=say)


def base_image(packages: tuple[str, ...] = ("python3",), say: Say = to_stderr) -> Image:
    """A small Debian with these packages, for Dockerfiles that take their base as an argument. The tag names
    the content: an image built on another base is another image."""
    key = key_of([_DEBIAN, *packages, *_NEEDLESS])

    def bootstrap(folder: Path) -> None:
        root = folder / "root"
        include = f"--include={','.join(packages)}"
        run(["debootstrap", "--variant=minbase", include, _DEBIAN, root], seconds=_BUILD_SECONDS)
        for needless in _NEEDLESS:
            shutil.rmtree(root / needless, ignore_errors=True)
            (root / needless).mkdir(parents=True, exist_ok=True)
        tar = [
            "tar",
            "--create",
            "--numeric-owner",
            "--exclude=./dev/*",
            "--exclude=./proc/*",
            "--exclude=./sys/*",
        ]
        run([*tar, f"--file={folder / 'root.tar'}", f"--directory={root}", "."], seconds=_BUILD_SECONDS)
        shutil.rmtree(root)

    folder = cache_folder() / "base" / key
    what = f"a Debian {_DEBIAN} with {', '.join(packages)}"
    made_once(folder, bootstrap, what, say=say, seconds=_BUILD_SECONDS)
    return build_image(_DOCKERFILE_OF_BASE, folder, f"localhost/base:{key}", say=say, is_base=True)


def build_image(
    dockerfile: str,
    context: Path,
    tag: str,
    build_args: Mapping[str, str] | None = None,
    *,
    is_base: bool = False,
    say: Say = to_stderr,
) -> Image:
    """`dockerfile` is the text. What it is built from is what base_image() made here; nothing is pulled.
    Raises CommandFailed with what buildah said."""
    given = dict(sorted((build_args or {}).items()))
    arguments = (f"{name}={value}" for name, value in given.items())
    key = key_of([dockerfile, tag, *arguments, *_content(context)])
    name = tag.removeprefix("localhost/").replace("/", "-").replace(":", "-")
    archives = cache_folder() / "images"

    def build(folder: Path) -> None:
        _build(dockerfile, context, tag, given, folder / "image.tar", keep=is_base, say=say)

    folder = made_once(archives / f"{name}-{key}", build, f"the image {tag}", say=say, seconds=_BUILD_SECONDS)
    for old in archives.glob(f"{name}-{'?' * len(key)}"):
        if old != folder:
            shutil.rmtree(old)
    return Image(tag, folder / "image.tar")


def _build(
    dockerfile: str,
    context: Path,
    tag: str,
    build_args: Mapping[str, str],
    archive: Path,
    *,
    keep: bool,
    say: Say,
) -> None:
    storage = cache_folder() / "buildah"
    # vfs and chroot: neither needs a kernel feature or a capability that a machine's root may lack.
    buildah = ["buildah", "--root", str(storage / "root"), "--runroot", str(storage / "run")]
    buildah += ["--storage-driver", "vfs"]
    text = archive.with_name("Dockerfile")
    text.write_text(dockerfile)
    command = [*buildah, "bud", "--isolation", "chroot", "--pull-never", "--file", str(text), "--tag", tag]
    for name, value in build_args.items():
        command += ["--build-arg", f"{name}={value}"]
    with exclusive(storage / "lock", "building an image", say=say, seconds=_BUILD_SECONDS):
        run([*command, context], seconds=_BUILD_SECONDS)
        run([*buildah, "push", tag, f"oci-archive:{archive}:{tag}"], seconds=_BUILD_SECONDS)
        if not keep:  # vfs holds a whole copy of every image
            run([*buildah, "rmi", "--force", tag])


def _content(context: Path) -> Iterator[bytes]:
    """Everything under a folder that reaches an image: names, modes, contents and targets of links."""
    for folder, folders, files in os.walk(context):
        folders.sort()
        for name in sorted(files) + folders:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            yield f"{path.relative_to(context)} {mode:o}".encode()
            if stat.S_ISREG(mode):
                yield path.read_bytes()
            elif stat.S_ISLNK(mode):
                yield bytes(path.readlink())
