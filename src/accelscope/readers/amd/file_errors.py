"""Why a file of the driver could not be read."""

import errno

from accelscope.model import AbsenceReason

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


def reason_of(error: OSError) -> AbsenceReason:
    return _REASONS.get(error.errno or 0, AbsenceReason.DRIVER_ERROR)
