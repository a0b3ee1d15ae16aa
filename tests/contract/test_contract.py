"""Names that users depend on stay as they were in commit a7c9553, but for the intended changes.

An intended change is added to changes.txt with its reason; a7c9553.txt is never made anew.
"""

from pathlib import Path

from tests.contract.surface import surface
from tests.repository import REPOSITORY

FOLDER = Path(__file__).parent


def test_public_names_change_only_as_listed() -> None:
    before = set((FOLDER / "a7c9553.txt").read_text().splitlines())
    now = set(surface(REPOSITORY))
    listed = {line for line in (FOLDER / "changes.txt").read_text().splitlines() if line[:2] in ("- ", "+ ")}
    changes = {f"- {line}" for line in before - now} | {f"+ {line}" for line in now - before}
    added, withdrawn = sorted(changes - listed), sorted(listed - changes)
    assert not added, "add to tests/contract/changes.txt, with a reason:\n" + "\n".join(added)
    assert not withdrawn, "remove from tests/contract/changes.txt:\n" + "\n".join(withdrawn)


def test_each_block_of_changes_begins_with_its_reason() -> None:
    blocks = (FOLDER / "changes.txt").read_text().strip().split("\n\n")
    assert [block for block in blocks if not block.startswith("# ")] == []
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line for line in lines if line[:2] not in ("# ", "- ", "+ ")] == []
