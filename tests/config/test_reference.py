"""The page of settings is made from their declarations."""

from collections.abc import Mapping
from dataclasses import dataclass

from accelscope.config import (
    BOOLEAN,
    CONFIG_FILE,
    LABELS,
    PORT,
    Duration,
    ValueKind,
    reference,
    setting,
)


class Nested(ValueKind[str]):
    allowed = "a mapping a|b"
    textual = False


@dataclass(frozen=True, slots=True)
class Sample:
    config_file: str | None = setting(None, CONFIG_FILE, "The file.", group="General")
    exporter_port: int = setting(9400, PORT, "Port.", group="HTTP", reloadable=False)
    wait: float = setting(90, Duration(1), "Time.", group="General", env_aliases=("WAITING",))
    gzip: bool = setting(False, BOOLEAN, "Compress.", group="HTTP")
    labels: Mapping[str, str] = setting({}, LABELS, "Labels.", group="HTTP")
    nested: str = setting("", Nested(), "By model.", group="HTTP")


EXPECTED = """\
## General

| flag | environment | key | default | allowed | what it is |
|---|---|---|---|---|---|
| `--config-file` | `CONFIG_FILE` |  |  | a path | The file. |
| `--wait` | `WAIT`, `WAITING` | `wait` | `1m30s` | a duration of at least 1s, such as 10s, \
500ms or 1m30s | Time. |

## HTTP

| flag | environment | key | default | allowed | what it is |
|---|---|---|---|---|---|
| `--exporter-port` | `EXPORTER_PORT` | `exporterPort` | `9400` | a port from 0 to 65535 (0: any free one) \
| Port. A change needs a restart. |
| `--gzip`, `--no-gzip` | `GZIP` | `gzip` | `false` | true or false (also yes/no, on/off, 1/0) | Compress. |
| `--labels` | `LABELS` | `labels` |  | a list of labels such as rack=7,zone=a | Labels. |
|  |  | `nested` |  | a mapping a\\|b | By model. |
"""


def test_the_whole_page() -> None:
    assert reference(Sample) == EXPECTED
