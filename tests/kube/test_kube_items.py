"""Lists and watches taken apart while they arrive."""

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import in_linear_time

from accelscope.kube.endpoint import KubeError, Reason
from accelscope.kube.listwatch import LineSplitter, ListSplitter

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


Split = tuple[list[object], ListSplitter]


def split(content: bytes, piece: int | None = None, limit: int = 1 << 20) -> Split:
    splitter = ListSplitter(limit)
    size = piece or max(len(content), 1)
    items: list[object] = []
    for start in range(0, len(content), size):
        items.extend(splitter.feed(content[start : start + size]))
    items.extend(splitter.close())
    return items, splitter


@given(
    items=st.lists(VALUES, max_size=6),
    piece=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    metadata_first=st.booleans(),
    extra=VALUES,
)
def test_items_come_as_they_were_however_the_bytes_arrive(
    items: list[object], piece: int, indent: int | None, ascii_only: bool, metadata_first: bool, extra: object
) -> None:
    metadata = {"metadata": {"resourceVersion": "77", "continue": "more"}}
    document = {"kind": "PodList", "items": items, "extra": extra}
    document = {**metadata, **document} if metadata_first else {**document, **metadata}
    content = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    found, splitter = split(content, piece)
    assert found == items
    assert (splitter.resource_version, splitter.continue_token) == ("77", "more")


@pytest.mark.parametrize(
    "content",
    [
        b'{"items":[]}',
        b' {"items" : null } ',
        b'{"items":[],"metadata":{"continue":""}}',
        b'{"items":[],"metadata":3}',
    ],
)
def test_lists_of_nothing(content: bytes) -> None:
    found, splitter = split(content, 1)
    assert (found, splitter.resource_version, splitter.continue_token) == ([], None, None)


def test_items_come_before_the_list_is_whole() -> None:
    splitter = ListSplitter()
    assert list(splitter.feed(b'{"items":[{"a":1},{"b"')) == [{"a": 1}]
    assert list(splitter.feed(b':2},[3],4,"five')) == [{"b": 2}, [3], 4]
    assert list(splitter.feed(b'"]}')) + list(splitter.close()) == ["five"]


@pytest.mark.parametrize("piece", [None, 1, 5])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"   ",
        b"[]",
        b"null",
        b"<html>",
        b"{}",
        b'{"kind":"Status","message":"hello"}',
        b'{"items":{}}',
        b'{"items":7}',
        b'{"items":[1 2]}',
        b'{"items":[1,]}',
        b'{"items":[,]}',
        b'{"items":[{"a" 1}]}',
        b'{"items":[1]',
        b'{"items":[{"a":"b',
        b'{"items":[]}x',
        b'{"items":[],}',
        b'{"items" []}',
        b"{items:[]}",
        b"{7:[]}",
        b'{"items":["\xff"]}',
        b'{"items":["\xc3',
        b'{"items":["a\nb"]}',
        b'{"items":[' + b"[" * 100_000,
        b'{"items":[' + b"9" * 10_000 + b"]}",
    ],
)
def test_what_is_no_list(content: bytes, piece: int | None) -> None:
    if piece is not None and len(content) > 1000:
        piece *= 1000
    with pytest.raises(KubeError) as caught:
        split(content, piece)
    assert caught.value.reason is Reason.BAD_ANSWER


def test_what_is_wrong_is_seen_long_before_the_end() -> None:
    splitter = ListSplitter()
    with pytest.raises(KubeError, match="not JSON"):
        list(splitter.feed(b'{"items":[{"a" 1, "' + b"x" * 1000))


@given(st.binary(max_size=60), st.integers(1, 20))
def test_no_bytes_raise_anything_else(content: bytes, piece: int) -> None:
    for prefix in (b"", b'{"items":[', b'{"items":[{"a":'):
        with suppress(KubeError):
            split(prefix + content, piece)


def test_an_item_beyond_the_limit() -> None:
    content = b'{"items":["' + b"x" * 10_000 + b'"]}'
    assert len(split(content, 100, limit=20_000)[0]) == 1
    with pytest.raises(KubeError) as caught:
        split(content, 100, limit=5_000)
    assert caught.value.reason is Reason.TOO_LARGE


def test_blanks_without_end_cost_next_to_nothing() -> None:
    """Of the thread's own time: what others on the machine do is not counted."""
    splitter = ListSplitter()
    began = time.thread_time()
    for _ in range(64):
        assert list(splitter.feed(b" " * (64 << 10))) == []
    assert time.thread_time() - began < 0.2


def test_a_document_of_far_too_many_members_is_no_list() -> None:
    with pytest.raises(KubeError) as error:
        list(ListSplitter().feed(b"{" + b'"a":0,' * 1000))
    assert error.value.reason is Reason.BAD_ANSWER


def test_a_long_item_in_small_pieces_is_not_read_over_and_over() -> None:
    """1 MB in pieces of 100 bytes: 10,000 attempts on half of it would be 5 GB, some 20 s at best."""
    item = {"list": [{"name": f"entry {number}"} for number in range(50_000)]}
    content = json.dumps({"items": [item]}).encode()
    assert len(content) > 1_000_000
    with in_linear_time():
        items = split(content, 100, limit=16 << 20)[0]
    assert items == [item]


LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=8)


@given(LINES, st.integers(1, 9))
def test_lines_come_whole(lines: list[bytes], piece: int) -> None:
    content = b"".join(line + b"\n" for line in lines) + b"a half"
    splitter = LineSplitter()
    pieces = [content[start : start + piece] for start in range(0, len(content), piece)]
    found = [line for part in pieces for line in splitter.feed(part)]
    assert found == [line for line in lines if line.strip()]


def test_a_line_beyond_the_limit() -> None:
    splitter = LineSplitter(1000)
    assert [list(splitter.feed(b"x" * 100)) for _ in range(10)] == [[]] * 10
    with pytest.raises(KubeError) as caught:
        list(splitter.feed(b"x"))
    assert caught.value.reason is Reason.TOO_LARGE
