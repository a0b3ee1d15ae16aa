"""`furiosa-smi version`: the driver's version, for where sysfs does not tell it.

Key and value stand on one line (`- device driver:   2026.1.0, 96977d5`) or, in later tools, on two.
"""

import re

_DRIVER = re.compile(r"device\s+driver\s*:?\s{1,20}([0-9][^\r\n]{0,79})", re.IGNORECASE)


def driver_version(text: str) -> str | None:
    match = _DRIVER.search(text[:10_000])
    return match[1].strip() if match else None
