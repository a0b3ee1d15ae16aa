"""Detection of serial numbers in outputs."""

import pytest

from accelscope.capture.mask import decimal_serials_in, serials_in

FOUND = [
    ("<serial>1650123456789</serial>", ["1650123456789"]),
    ("<serial> 1650123456789 </serial><uuid>GPU-1</uuid>", ["1650123456789"]),
    ("<platformInfo><chassis_serial_number>SN-77x</chassis_serial_number></platformInfo>", ["SN-77x"]),
    ('{"card0": {"Serial Number": "692251001124", "Unique ID": "0x1a2b3c4d5e6f7081"}}', None),
    ('"asic_serial": "0xEA9C2D06BDC4E3BD",\n"product_serial": 123456', ["0xEA9C2D06BDC4E3BD", "123456"]),
    (
        "Serial Number                  : 102109A1\nVDie ID : 42C711D4 20B03704",
        ["102109A1", "42C711D4 20B03704"],
    ),
    ("DDie ID                        : 27216594 20401010 4E10C8D4", ["27216594 20401010 4E10C8D4"]),
    ("<pdi>0xb10cbc14dec8c521</pdi>", ["0xb10cbc14dec8c521"]),
    ("    GPU PDI                        : 0x737bb8d09327f7d9\n", ["0x737bb8d09327f7d9"]),
    ("PDI : 0x737bb8d09327f7d9\n", ["0x737bb8d09327f7d9"]),
    ("index, serial, uuid\n0, 1650123456789, GPU-1\n1, [N/A], GPU-2\n", ["1650123456789"]),
    ("| Device | S/N        | Power |\n| npu0   | RNGD000002 | 3 W   |\n", ["RNGD000002"]),
    ("=== /sys/class/npu_mgmt/npu0_mgmt/device_sn\nWBYB00001\n=== /sys/x/alive\n12345\n", ["WBYB00001"]),
    ("=== /sys/class/drm/card0/device/unique_id\n1a2b3c4d5e6f7081\n", ["1a2b3c4d5e6f7081"]),
]
NOT_FOUND = [
    "<serial>0000000000000</serial>",
    "<serial>[N/A]</serial>",
    "<gpu_part_number>900-2G183-0000-001</gpu_part_number>",
    "Board ID : 0x02",
    '"GUID": "29921"',
    '"Unique ID": "N/A"',
    'Section about serial property\n"serial"\nThis number matches the serial number on the board.',
    "",
]


@pytest.mark.parametrize(("text", "values"), FOUND)
def test_serial_numbers_are_found(text: str, values: list[str] | None) -> None:
    found = list(serials_in(text))
    assert sorted(set(found)) == sorted(values or ["692251001124", "0x1a2b3c4d5e6f7081"])


@pytest.mark.parametrize("text", NOT_FOUND)
def test_other_numbers_are_not_found(text: str) -> None:
    assert list(serials_in(text)) == []


def test_decimal_serial_numbers_are_found() -> None:
    assert list(decimal_serials_in("gfx_target_version 90402\nunique_id 1885667171979194497\n")) == [
        "1885667171979194497"
    ]
    assert list(decimal_serials_in("unique_id 0\n")) == []
