"""Files of the kernel: read whole, with the reason where one cannot be read."""

import errno
import os

from accelscope.model import AbsenceReason

_MOST_BYTES = 65536  # a page is what the kernel shows of most; lists of bad memory are longer

_REASONS = {
    errno.ENOENT: AbsenceReason.NOT_SUPPORTED,
    errno.EOPNOTSUPP: AbsenceReason.NOT_SUPPORTED,
    errno.EINVAL: AbsenceReason.NOT_SUPPORTED,
    errno.EACCES: AbsenceReason.NO_PERMISSION,
    # Not about rights: amdgpu answers so while it resets the GPU or while that is asleep.
    errno.EPERM: AbsenceReason.NO_SAMPLE,
    errno.EBUSY: AbsenceReason.NO_SAMPLE,
    errno.EAGAIN: AbsenceReason.NO_SAMPLE,
    errno.ENODATA: AbsenceReason.NO_SAMPLE,
    errno.ETIMEDOUT: AbsenceReason.TIMEOUT,
    errno.ETIME: AbsenceReason.TIMEOUT,
    errno.ENODEV: AbsenceReason.LOST,
    errno.ENXIO: AbsenceReason.LOST,
}


def read_text(path: str) -> str:
    """Raises OSError. May hang: the driver asks the device for some of its files."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def told(path: str) -> str | None:
    """A fact that need not be there: None where it is missing, empty or not to be read."""
    try:
        return read_text(path).strip() or None
    except OSError:
        return None


def entries(folder: str) -> list[str]:
    """Names in a folder, sorted; none where it cannot be looked into."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, and often
    except OSError:
        return []


def reason_of(error: OSError) -> AbsenceReason:
    return _REASONS.get(error.errno or 0, AbsenceReason.DRIVER_ERROR)
