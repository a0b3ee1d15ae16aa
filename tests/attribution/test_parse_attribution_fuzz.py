"""Whatever text comes, an answer is given, soon, and it can be written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import in_linear_time

from accelscope.attribution.checkpoint import SOURCES
from accelscope.model.wire import plain

PARSERS = {source.name: source.parse for source in SOURCES}
UID = "7c1d0e52-93ab-4f0c-8e11-5a2b6c7d8e9f"
ID = "3fa9" * 16
MANY = 400_000

LARGE = {
    "lines": f"5:memory:/kubepods/pod{UID}/{ID}\n" * (MANY // 10),
    "rubbish": "x\n" * MANY,
    "units": "".join(f"1:name=systemd:/system.slice/{n}.slice\n" for n in range(MANY // 10)),
    "pods": "0::/" + "pod" * MANY,
    "digits": "0::/" + "a" * MANY,
    "ids": "0::" + f"/{ID}" * (MANY // 10),
    "up": "0::" + "/.." * MANY + "x",
    "slurm": "0::" + "/slurm" * MANY,
    "underscores": "0::/slurm_" + "_slurmstepd.scope" * (MANY // 10),
    "services": "0::/" + ".service" * MANY,
    "colons": ":" * MANY,
    "dashes": "1 1 0:1 / / rw" + " - " * MANY,
    "mounts": f"20 1 0:28 /pods/{UID}/etc-hosts /etc/hosts rw - ext4 a rw\n" * (MANY // 10),
    "folders": "20 1 0:28 " + f"/pods/{UID}" * (MANY // 10) + " /x rw - ext4 a rw",
    "name": f"20 1 0:28 /pods/{UID}/containers/" + "a" * MANY + " /x rw - ext4 a rw",
    "containers": "20 1 0:28 " + "/containers/a" * (MANY // 2) + " /x rw - ext4 a rw",
    "escapes": "20 1 0:28 " + "\\040" * MANY + " /x rw - ext4 a rw",
    "nulls": '{"Data":{"PodDeviceEntries":[' + "null," * MANY + "null]}}",
    "deep": "[" * MANY,
    "number": '{"Data":' + "1" * MANY + "}",
    "zeros": "0" * MANY,
    "blanks": " " * MANY,
}


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=200))
def test_any_text_gets_a_result(name: str, text: str) -> None:
    parsed = PARSERS[name](text, None)
    json.dumps(plain(parsed), allow_nan=False, ensure_ascii=False).encode()
    told = parsed.containers is not None or parsed.allocations is not None or parsed.ratio is not None
    assert told == (parsed.error is None)


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("name", PARSERS)
def test_a_large_text_is_parsed_quickly(name: str, large: str) -> None:
    with in_linear_time():
        parsed = PARSERS[name](LARGE[large], None)
    assert len(parsed.rejected) <= 101
