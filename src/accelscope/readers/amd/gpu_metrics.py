"""The binary file `gpu_metrics` of a GPU: the energy counter, which the driver shows nowhere else."""

import struct

_HEADER = struct.Struct("<HBB")  # size of the table, format, content
_DEDICATED = 1  # format: tables of APUs (2, 3) have no energy
# Offset of the counter by content revision. 1.0 has no aligned counter; 1.9 is a list of attributes. 1.6 is
# the form of released kernels, without the activity of video and JPEG engines that 1.5 has before it.
_ENERGY_OFFSETS = {1: 24, 2: 24, 3: 24, 4: 24, 5: 88, 6: 16, 7: 24, 8: 24}
_ENERGY = struct.Struct("<Q")
_JOULES = 2.0**-16  # of one count; AMD's tools multiply by 15.3 µJ, which is this unit rounded
_NO_MEASUREMENT = (0, 0xFFFF_FFFF_FFFF_FFFF)


def energy_joules(table: bytes) -> float | None:
    """Energy since the driver was loaded; None for a table without it."""
    if len(table) < _HEADER.size:
        return None
    size, format_, content = _HEADER.unpack_from(table)
    offset = _ENERGY_OFFSETS.get(content) if format_ == _DEDICATED else None
    if offset is None or min(size, len(table)) < offset + _ENERGY.size:
        return None
    (count,) = _ENERGY.unpack_from(table, offset)
    return None if count in _NO_MEASUREMENT else round(count * _JOULES, 6)
