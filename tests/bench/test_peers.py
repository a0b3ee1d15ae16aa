"""Other exporters are found where they are, obtained where they are not, and what cannot be had says why."""

from pathlib import Path

import pytest
from bench.peers import OUT_OF_REACH, PEERS, Peer, obtain_missing
from bench.sources import FromCrates, FromDebian, FromPyPI, NotObtained
from tests.programs import script


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


_CRATE = FromCrates("some-smi", "1.2.3", minutes=9, needs=("libone-dev", "libtwo-dev"))
_BUILDS = (
    'while [ "$1" != --root ]; do shift; done; mkdir -p "$2/bin"; '
    'echo >"$2/bin/some-smi"; chmod +x "$2/bin/some-smi"'
)


@pytest.fixture
def debian(programs: Path) -> Path:
    """One of the two packages is installed; apt-get writes down what it was asked for."""
    script(programs / "dpkg-query", "echo libone-dev:amd64 installed; echo libtwo-dev not-installed; exit 1")
    script(programs / "apt-get", f'[ "$1" = update ] && exit 100; echo "$@" >>{programs}/asked')
    return programs


def _be_root(monkeypatch: pytest.MonkeyPatch, user: int = 0) -> None:
    monkeypatch.setattr("bench.sources.os.geteuid", lambda: user)


def test_a_crate_is_built_into_the_cache(debian: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _be_root(monkeypatch)
    assert _CRATE.find() is None
    script(debian / "cargo", _BUILDS)
    _CRATE.obtain()
    assert _CRATE.find() == (str(cache / "some-smi-1.2.3" / "bin" / "some-smi"),)


def test_what_a_crate_needs_of_debian_is_installed_first(
    debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_root(monkeypatch)
    script(debian / "cargo", f"[ -e {debian}/asked ]")
    _CRATE.obtain()
    assert (debian / "asked").read_text().split()[-1:] == ["libtwo-dev"]
    assert "libone-dev" not in (debian / "asked").read_text()


def test_who_may_not_install_is_told_what_a_crate_needs(
    debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _be_root(monkeypatch, user=1000)
    script(debian / "cargo", "exit 0")
    with pytest.raises(NotObtained, match=r"^needs of Debian libtwo-dev, and root to install that$"):
        _CRATE.obtain()
    assert not (debian / "asked").exists()


def test_a_package_of_debian_is_installed(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _be_root(monkeypatch)
    FromDebian("some-exporter", "some-exporter").obtain()
    assert (debian / "asked").read_text().split()[-1:] == ["some-exporter"]


def test_why_a_build_failed_is_told_in_one_line(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _be_root(monkeypatch)
    script(debian / "cargo", "echo error: asked https://crates.test/a >&2; echo not there >&2; exit 101")
    with pytest.raises(NotObtained, match=r"^cargo failed: error: asked its registry: not there$"):
        _CRATE.obtain()


@pytest.mark.usefixtures("programs")
def test_a_missing_compiler_is_told() -> None:
    with pytest.raises(NotObtained, match="no cargo on PATH"):
        _CRATE.obtain()


@pytest.mark.usefixtures("programs")
def test_what_is_not_installed_is_not_found() -> None:
    assert FromDebian("some-exporter", "some-exporter").find() is None
    assert FromPyPI("some-exporter", "1", "no_such_module_at_all").find() is None


def test_a_peer_that_cannot_be_had_is_named_with_the_reason(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _be_root(monkeypatch)
    script(debian / "cargo", "echo no >&2; exit 1")
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
