"""The images of agent and fleet, from deploy/image/Dockerfile, built without a network as the docs tell."""

import functools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.kubernetes import images
from tests.e2e.kubernetes.cache import Say, cache_folder, exclusive, key_of, made_once, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.repository import REPOSITORY

import accelscope

REGISTRY = "localhost"
TAG = f"{REGISTRY}/accelscope:{accelscope.__version__}"
FLEET_TAG = f"{REGISTRY}/accelscope-fleet:{accelscope.__version__}"

_COLLECT_SECONDS = 600.0
# What .dockerignore lets through.
_LOCKS = tuple(f"requirements/{name}.txt" for name in ("agent", "device-plugin", "fleet", "node"))
_SOURCES = ("LICENSE", "README.md", "pyproject.toml", *_LOCKS, "src", "web", "deploy/image")
_NOT_SOURCES = ("__pycache__", "*.egg-info", "wheels", "static", "node_modules")


@functools.cache
def agent_image(say: Say = to_stderr) -> images.Image:
    """Of what the checkout holds when it is first asked for: all tests of a run have the same. Raises
    CommandFailed."""
    return _image("device-plugin", TAG, say)


@functools.cache
def fleet_image(say: Say = to_stderr) -> images.Image:
    """Likewise, with what the fleet needs more."""
    return _image("fleet", FLEET_TAG, say)


def _image(lock: str, tag: str, say: Say) -> images.Image:
    base = images.base_image(say=say)
    context = _context(lock, say)
    dockerfile = (REPOSITORY / "deploy" / "image" / "Dockerfile").read_text()
    arguments = {"BASE": base.tag, "VERSION": accelscope.__version__, "LOCK": lock}
    return images.build_image(dockerfile, context, tag, arguments, say=say)


def _context(lock: str, say: Say) -> Path:
    """Kept while the sources are the same: a wheel made anew is another file, and the image with it."""
    sources = [path for path in _files() if path.is_file()]
    named = (f"{path.relative_to(REPOSITORY)} {path.stat().st_mode:o}" for path in sources)
    key = key_of([*named, *(path.read_bytes() for path in sources)])
    contexts = cache_folder() / "context" / lock

    def collect(folder: Path) -> None:
        for path in sources:
            copy = folder / path.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        image = folder / "deploy" / "image"
        collector = REPOSITORY / "deploy" / "image" / "collect-wheels"
        command = [sys.executable, str(collector), f"--lock={lock}", f"--into={image / 'wheels'}"]
        with exclusive(contexts.parent / "collect.lock", "collecting", say=say, seconds=_COLLECT_SECONDS):
            run(command, seconds=_COLLECT_SECONDS)

    what = f"the wheels of an image ({lock})"
    kept = made_once(contexts / key, collect, what, say=say, seconds=_COLLECT_SECONDS)
    for old in contexts.glob("?" * len(key)):
        if old != kept:
            shutil.rmtree(old, ignore_errors=True)
    return kept


def _files() -> Iterator[Path]:
    for name in _SOURCES:
        source = REPOSITORY / name
        found = sorted(source.rglob("*")) if source.is_dir() else [source]
        for path in found:
            parts = [Path(part) for part in path.relative_to(REPOSITORY).parts]
            if not any(part.match(pattern) for part in parts for pattern in _NOT_SOURCES):
                yield path
