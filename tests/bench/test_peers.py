"""Other exporters are found where they are, obtained where they are not, and what cannot be had says why."""

import stat
from pathlib import Path

import pytest
from bench.peers import OUT_OF_REACH, PEERS, Peer, obtain_missing
from bench.sources import FromCrates, FromDebian, FromGoProxy, FromPyPI, NotObtained


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ACCELSCOPE_BENCH_CACHE", str(folder))
    return folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of PATH besides the shell's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    return folder


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


_CRATE = FromCrates("some-smi", "1.2.3", minutes=9, needs="libsome-dev")


def test_a_crate_is_built_into_the_cache(programs: Path, cache: Path) -> None:
    assert _CRATE.find() is None
    _program(
        programs / "cargo",
        'while [ "$1" != --root ]; do shift; done; mkdir -p "$2/bin"; '
        'echo >"$2/bin/some-smi"; chmod +x "$2/bin/some-smi"',
    )
    _CRATE.obtain()
    assert _CRATE.find() == (str(cache / "some-smi-1.2.3" / "bin" / "some-smi"),)


def test_a_go_program_is_built_into_the_cache(programs: Path, cache: Path) -> None:
    source = FromGoProxy("example.org/some/cmd/some_exporter", "v1")
    assert source.find() is None
    _program(programs / "go", 'echo >"$GOBIN/some_exporter"; chmod +x "$GOBIN/some_exporter"')
    source.obtain()
    found = source.find()
    assert found is not None
    assert Path(found[0]).is_relative_to(cache)


def test_why_a_build_failed_is_told_in_one_line(programs: Path) -> None:
    _program(programs / "cargo", "echo error: asked https://crates.test/a >&2; echo not there >&2; exit 101")
    with pytest.raises(NotObtained, match=r"^cargo failed: error: asked its registry: not there$"):
        _CRATE.obtain()


@pytest.mark.parametrize(
    ("source", "reason"),
    [(_CRATE, "no cargo on PATH"), (FromGoProxy("example.org/some", "v1"), "no go on PATH")],
)
@pytest.mark.usefixtures("programs")
def test_a_missing_compiler_is_told(source: FromCrates | FromGoProxy, reason: str) -> None:
    with pytest.raises(NotObtained, match=reason):
        source.obtain()


@pytest.mark.usefixtures("programs")
def test_what_is_not_installed_is_not_found() -> None:
    assert FromDebian("some-exporter", "some-exporter").find() is None
    assert FromPyPI("some-exporter", "1", "no_such_module_at_all").find() is None


def test_a_peer_that_cannot_be_had_is_named_with_the_reason(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _program(programs / "cargo", "echo no >&2; exit 1")
    monkeypatch.setattr("bench.peers.PEERS", (Peer("some-smi", _CRATE, (), b""),))
    assert obtain_missing() == {"some-smi": "cargo failed: no"}
    assert "about 9 minutes" in capsys.readouterr().out


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_commands_are_filled_in(peer: Peer) -> None:
    command = " ".join(peer.command(["program"], 4321, 5))
    assert "4321" in command
    assert "{" not in command + "".join(peer.surroundings(Path("/node")).values())


def test_every_exporter_that_is_left_out_has_a_reason() -> None:
    assert all(OUT_OF_REACH.values())
    assert not {peer.name for peer in PEERS} & set(OUT_OF_REACH)
