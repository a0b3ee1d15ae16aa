"""What the files of a card in /sys gave, and why one of them gave nothing."""

import errno
from collections.abc import Callable
from typing import TypeVar

from accelscope.model import AbsenceReason, Rejection
from accelscope.vendors.common.files import read_text

T = TypeVar("T")

_TEXT_LIMIT = 200  # characters of a rejected text that are kept
_REASONS = {
    errno.ENOENT: AbsenceReason.NOT_KNOWN,
    errno.ENOTDIR: AbsenceReason.NOT_KNOWN,
    errno.EACCES: AbsenceReason.NO_PERMISSION,
    errno.EPERM: AbsenceReason.NO_PERMISSION,
    errno.ETIMEDOUT: AbsenceReason.TIMEOUT,
    errno.EAGAIN: AbsenceReason.NO_SAMPLE,
    errno.ENODATA: AbsenceReason.NO_SAMPLE,
    errno.EOPNOTSUPP: AbsenceReason.NOT_SUPPORTED,
    errno.ENODEV: AbsenceReason.LOST,
    errno.ENXIO: AbsenceReason.LOST,
}


class Attributes:
    """What the files of one card gave in one pass."""

    def __init__(self) -> None:
        self.absent: dict[str, AbsenceReason] = {}
        self.rejected: list[Rejection] = []

    def text(self, path: str, field: str) -> str | None:
        """The file's text without the blanks around it; `field` is absent where there is none."""
        try:
            text = read_text(path).strip()
        except OSError as error:
            self.absent[field] = _REASONS.get(error.errno or 0, AbsenceReason.DRIVER_ERROR)
            return None
        if not text:
            self.absent[field] = AbsenceReason.NO_SAMPLE
        return text or None

    def value(self, path: str, field: str, read: Callable[[str], T | None]) -> T | None:
        text = self.text(path, field)
        if text is None:
            return None
        value = read(text)
        if value is None:
            self.absent[field] = AbsenceReason.UNREADABLE
            name = path.rpartition("/")[2]
            self.rejected.append(Rejection(f"{name}: {text[:_TEXT_LIMIT]}", "unreadable"))
        return value
