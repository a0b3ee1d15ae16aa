"""Masks: no value that identifies the node, its devices or its users is left, and outputs can be joined."""

import re
import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.capture import Mask, NodeNames

NAMES = NodeNames(hosts=("gpu-07.corp.example", "gpu-07"), users=("alice", "root", "nvidia", "jo", "Bob"))


def hidden(text: str, *others: str, names: NodeNames = NAMES) -> str:
    mask = Mask(names)
    mask.learn((text, *others))
    return mask.hide(text)


FORMS = [
    ("hip: GPU-1d5d2f1cdfb4b1cf", "hip: GPU-0000000000000001"),
    ("GPU-8f2c1d90-3e5a-4b6c-9d7e-0123456789ab", "GPU-00000000-0000-4000-8000-000000000001"),
    ("8EAE95DA-2625-40D0-8838-68EA772193A8", "00000000-0000-4000-8000-000000000001"),
    ("poddaf75fe8_5ce3_3ee6_0662_5a88324c774c.slice", "pod00000000_0000_4000_8000_000000000001.slice"),
    (f"pod{'ab' * 16}/", f"pod{'0' * 31}1/"),
    (f"cri-containerd-{'3b' * 32}.scope", f"cri-containerd-{'0' * 63}1.scope"),
    ("<serial>1650123456789</serial>", "<serial>1000000000001</serial>"),
    ('"Unique ID": "0x1A2B3C4D5E6F7081"', '"Unique ID": "0x1000000000000001"'),
    ("Serial Number : WBYB0012345", "Serial Number : XXXX0000001"),
    ("VDie ID : 42C711D4 20B03704", "VDie ID : 10000000 00000001"),
    ("gpu-07 and GPU-07.corp.example", "node1 and node1.domain1.invalid"),
    ("/home/alice/x, bob", "/home/user1/x, user2"),
    ("addr=10.1.2.3,", "addr=192.0.2.1,"),
    ("driver version 570 of 10.1.2.3", "driver version 570 of 192.0.2.1"),
    ("de:ad:be:ef:00:01", "02:00:00:00:00:01"),
    ("fe80::dead:beef", "2001:db8::1"),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_a_mask_has_the_form_of_the_value(text: str, expected: str) -> None:
    assert hidden(text) == expected


KEPT = [
    "00000000:65:00.0 0000:c7:00.0 000f:01:00.0",  # PCI addresses
    "0x0000000000000004",  # a set of bits
    "| npu-smi 23.0.2.1                 Version: 23.0.2.1 |",
    "Firmware Version               : 7.1.0.7",
    '"driver_version": "6.2.4.1"',
    "VBIOS 96.00.89.00.01, 92.00.45.00",
    "0::/kubepods/besteffort",
    "GPU-00000000-0000-0000-0000-000000000000",  # masked before
    "2026/07/14 08:12:53.500",
    "root nvidia jo",  # names of nobody in particular, or too short to tell
    "127.0.0.1 0.0.0.0",
    "NVIDIA H100 80GB HBM3",
]


@pytest.mark.parametrize("text", KEPT)
def test_values_that_identify_no_one_stay(text: str) -> None:
    assert hidden(text) == text


def test_the_same_value_has_the_same_mask_in_all_files() -> None:
    one, other = str(uuid.UUID(int=2**100 + 5)), str(uuid.UUID(int=2**100 + 6))
    mask = Mask()
    mask.learn((one, other))
    assert mask.hide(f"{one} {other} {one}") == mask.hide(f"{one} {other} {one.upper().lower()}")
    assert mask.hide(one) != mask.hide(other)
    assert mask.hide(one.replace("-", "_")) == mask.hide(one).replace("-", "_")


def test_a_number_named_in_one_file_is_masked_in_all() -> None:
    assert hidden("card 1650123456789!", "<serial>1650123456789</serial>") == "card 1000000000001!"
    assert hidden("=== 1a2b3c4d5e6f7081", '"Unique ID": "0x1A2B3C4D5E6F7081"') == "=== 1000000000000001"


def test_decimal_and_hexadecimal_masks_of_a_number_are_equal() -> None:
    number = 0x1A2B3C4D5E6F7081
    mask = Mask()
    texts = (f'"Unique ID": "0x{number:x}"', f"unique_id {number}\n")
    mask.learn(texts)
    in_hex, in_decimal = (mask.hide(text) for text in texts)
    found = re.search(r"0x([0-9a-f]+)", in_hex)
    assert found
    assert in_decimal == f"unique_id {int(found[1], 16)}\n"


uuids = st.uuids(version=4).map(str)
serials = st.text("23456789", min_size=9, max_size=16)  # not by chance a part of a mask
words = st.text(string.ascii_lowercase, min_size=5, max_size=12).map(lambda word: f"{word}zq7")
addresses = (
    st.ip_addresses(v=4).map(str).filter(lambda a: not a.startswith(("0.", "127.", "255.", "192.0.2.")))
)
secrets = st.fixed_dictionaries(
    {
        "uuids": st.lists(uuids, min_size=1, max_size=6, unique=True),
        "serials": st.lists(serials, min_size=1, max_size=6, unique=True),
        "host": words,
        "users": st.lists(words, min_size=1, max_size=4, unique=True),
        "addresses": st.lists(addresses, min_size=1, max_size=4, unique=True),
        "arguments": words,
    }
)


def outputs(values: dict[str, list[str]]) -> dict[str, str]:
    rows = "".join(
        f"{n}, {serial}, GPU-{values['uuids'][n % len(values['uuids'])]}\n"
        for n, serial in enumerate(values["serials"])
    )
    return {
        "nvidia-smi-query-gpu": f"index, serial, uuid\n{rows}",
        "nvidia-smi-xml": "".join(
            f"<uuid>GPU-{one}</uuid>"
            f"<process_name>/home/{user}/bin/run --x {values['arguments']}</process_name>\n"
            for one in values["uuids"]
            for user in values["users"]
        ),
        "proc-cgroup": "".join(
            f"0::/kubepods-pod{one.replace('-', '_')}.slice/{values['host']}\n" for one in values["uuids"]
        ),
        "topo": " ".join([*values["serials"], *values["users"], *values["addresses"], str(values["host"])]),
    }


def everything(values: dict[str, list[str]]) -> list[str]:
    flat = [
        value for values in values.values() for value in ([values] if isinstance(values, str) else values)
    ]
    return [form for value in flat for form in (value, value.replace("-", "_"), value.upper())]


@given(secrets)
def test_no_secret_is_left_and_outputs_can_be_joined(values: dict[str, list[str]]) -> None:
    texts = outputs(values)
    mask = Mask(NodeNames((str(values["host"]),), tuple(values["users"])))
    mask.learn(texts.values())
    masked = {source: mask.apply(source, text) for source, text in texts.items()}
    for text in masked.values():
        assert not [secret for secret in everything(values) if secret in text]
    for source, text in masked.items():
        assert text.count("\n") == texts[source].count("\n")
    in_rows = re.findall(r"GPU-(\S+)", masked["nvidia-smi-query-gpu"])
    original = re.findall(r"GPU-(\S+)", texts["nvidia-smi-query-gpu"])
    assert len(set(in_rows)) == len(set(original))
    pods = {uid.replace("_", "-") for uid in re.findall(r"-pod(\S+?)\.slice", masked["proc-cgroup"])}
    assert set(in_rows) <= pods


@given(secrets)
def test_masking_twice_keeps_the_form(values: dict[str, list[str]]) -> None:
    def once(texts: dict[str, str]) -> dict[str, str]:
        mask = Mask(NodeNames((str(values["host"]),), tuple(values["users"])))
        mask.learn(texts.values())
        return {source: mask.apply(source, text) for source, text in texts.items()}

    first = once(outputs(values))
    second = once(first)
    for source, text in first.items():
        assert re.sub(r"[0-9a-fA-F]", "0", second[source]) == re.sub(r"[0-9a-fA-F]", "0", text)


@given(st.text(max_size=300))
def test_any_text_can_be_masked(text: str) -> None:
    mask = Mask(NAMES)
    mask.learn([text])
    for source in ("nvidia-smi-pmon", "proc-mountinfo", "furiosa-smi-ps", ""):
        mask.apply(source, text)


@pytest.mark.parametrize(
    "text", ["|" * 200_000, "a:" * 100_000, "0" * 300_000, "serial " * 50_000, "," * 200_000]
)
def test_hostile_text_is_masked_quickly(text: str) -> None:
    mask = Mask(NAMES)
    mask.learn([text])
    assert mask.apply("nvidia-smi-xml", text)
