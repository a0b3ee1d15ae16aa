"""`accelscope fleet token create`."""

from pathlib import Path

import pytest

from accelscope.cli.main import main
from accelscope.fleet.api.access import TokensFile


def test_what_goes_to_standard_error_is_a_whole_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "token", "create", "grafana", "--cluster", "berlin"]) == 0
    printed = capsys.readouterr()
    [token] = printed.out.splitlines()
    assert token not in printed.err
    path = tmp_path / "tokens.yaml"
    path.write_text(printed.err)
    caller = TokensFile(str(path)).caller(token)
    assert caller is not None
    assert (caller.name, caller.clusters) == ("grafana", frozenset({"berlin"}))
