"""docs/chart-values.md is up to date with the chart's values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.deploy.values_reference import VALUES, reference
from tests.repository import REPOSITORY

PAGE = REPOSITORY / "docs" / "chart-values.md"

COMMENTED = """\
# Of the whole file.

# What the group is for, with a page of its own (docs/fleet.md):
#   one   as it stands
group:
  plain: 10s
  beside: "" # empty: any
  # Above it, in
  # two lines of <vendor>.
  above: [a, b] # and beside
  # With an example:
  #   - first
  #     second
  # and more.
  example: {}
  lines:
    - a=1 # the first
    - b
  # Of the part.
  part:
    inner: null
single: {a: 1}
"""

MADE = """\
## group

What the group is for, with a page of its own ([fleet.md](fleet.md)):

```text
one   as it stands
```

| key | default | meaning |
|---|---|---|
| `group.plain` | `10s` |  |
| `group.beside` |  | empty: any |
| `group.above` | `[a, b]` | Above it, in two lines of &lt;vendor>. and beside |
| `group.example` | `{}` | With an example:<br>`- first`<br>`second`<br>and more. |
| `group.lines` | `a=1` the first<br>`b` |  |
| `group.part` |  | Of the part. |
| `group.part.inner` | `null` |  |

## Single values

| key | default | meaning |
|---|---|---|
| `single` | `{a: 1}` |  |
"""


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def test_values_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run make docs"


def test_every_value_has_a_row() -> None:
    rows = {line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    for leaf in leaves(yaml.safe_load(VALUES.read_text())):
        assert leaf in rows or leaf.rpartition(".")[0] in rows, leaf


def test_comments_become_the_meaning(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(COMMENTED)
    assert reference(file).partition("\n\n## ")[2] == MADE.removeprefix("## ")
