"""The plugin's own socket in the kubelet's folder."""

import errno
import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from accelscope.deviceplugin.service import MOST_STREAMS

_CONNECT_SECONDS = 2.0
_THREADS = MOST_STREAMS + 8  # each stream holds one; the others answer calls
_STOP_SECONDS = 2.0
_FOR_OWNER_ONLY = 0o177
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


class EndpointError(Exception):
    """The socket cannot be served. `reason` can be counted; the text is one line for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def check_folder(folder: Path) -> None:
    """Raises EndpointError for a folder in which no socket can be made."""
    if not folder.is_dir():
        raise EndpointError(
            "no_folder", f"{folder} is not a folder: is this a node with a kubelet, and is it mounted here?"
        )
    scratch = folder / f".accelscope-{os.getpid()}"
    try:
        scratch.touch()  # what a user may do on paper says little: folders may be read-only even to root
        scratch.unlink(missing_ok=True)  # a kubelet that starts may have been faster
    except FileNotFoundError as error:  # as a file system of the kernel's own has it, such as /proc
        raise EndpointError(
            "not_writable", f"{folder} is no folder to write in: give the kubelet's with --plugin-dir"
        ) from error
    except OSError as error:
        problem = f"{folder} cannot be written to ({_text(error)})"
        if error.errno in _FORBIDDEN:
            problem = f"{folder} is not writable ({_text(error)}): run as root, and mount it without readOnly"
        raise EndpointError("not_writable", problem) from error


def answers(path: Path) -> bool:
    """Whether somebody listens on a socket. Raises OSError where that cannot be told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:  # there is a queue before it
            return True
        return True


class Endpoint:
    """A server on its socket, from `start()` to `stop()`."""

    def __init__(self, path: Path, handlers: Any) -> None:
        self.path = path
        self._handlers = handlers
        self._server: Any = None
        self._mark: tuple[int, int] | None = None

    def start(self) -> None:
        """Raises EndpointError."""
        check_folder(self.path.parent)
        _clear(self.path)
        server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="kubelet"), [self._handlers])
        # The kubelet is root. A mode that is set after the socket was made would leave it open for a moment.
        mask = os.umask(_FOR_OWNER_ONLY)
        try:
            server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            raise EndpointError("not_served", f"{self.path} cannot be listened on: {error}") from error
        finally:
            os.umask(mask)
        server.start()
        self._server = server
        self._mark = _mark(self.path)

    @property
    def alive(self) -> bool:
        """Whether the socket is still there. A kubelet that starts empties its folder."""
        return self._mark is not None and _mark(self.path) == self._mark

    def stop(self) -> None:
        """No harm if it is not running. Another's socket that took this one's place is left alone."""
        if self._server is None:
            return
        ours = self.alive
        # grpcio removes the file by its name, whosever it is by now.
        aside = None if ours else _kept_aside(self.path)
        self._server.stop(grace=0.5).wait(_STOP_SECONDS)
        self._server = self._mark = None
        if ours:
            self.path.unlink(missing_ok=True)
        elif aside is not None:
            aside.replace(self.path)


def _clear(path: Path) -> None:
    """Remove what a plugin that was killed left behind."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise EndpointError("not_a_socket", f"{path} is there and is not a socket: remove it")
    try:
        taken = answers(path)
    except OSError as error:
        raise EndpointError("not_served", f"{path} is there and cannot be asked: {_text(error)}") from error
    if taken:
        raise EndpointError(
            "occupied",
            f"another plugin answers on {path}: stop it, or give this one another --socket-name and "
            "--resource-name",
        )
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise EndpointError("not_writable", f"{path} cannot be removed: {_text(error)}") from error


def _kept_aside(path: Path) -> Path | None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        aside.hardlink_to(path)
        return aside
    return None


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino  # which no other has while our socket is bound to it


def _text(error: OSError) -> str:
    return "no answer" if error.errno == errno.ETIMEDOUT else error.strerror or str(error)
