"""One request and its answer on one connection."""

from collections.abc import Iterator

from accelscope.kube.connection import Connection
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.message import AnswerParser, CutOff, Head, MessageError


class Exchange:
    """Deadlines are instants of time.monotonic(). Everything raises KubeError only."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url
        self._parser = AnswerParser()
        self._begun = b""  # of the body, what came together with the head
        self.answered = False  # whether anything came back at all

    @property
    def reusable(self) -> bool:
        return self._parser.reusable

    def begin(self, request: bytes, deadline: float) -> Head:
        """Send the request and wait for the answer's head."""
        self._connection.send(request, deadline)
        while self._parser.head is None:
            self._begun = self._more(deadline)
        if self._parser.head.headers.get("content-encoding", "identity").lower() != "identity":
            raise KubeError(Reason.BAD_ANSWER, f"{self._url}: the answer is compressed, though not asked for")
        return self._parser.head

    def next_piece(self, deadline: float) -> bytes:
        """Of the body what comes next; empty at its end."""
        piece, self._begun = self._begun, b""
        while not piece and not self._parser.finished:
            piece = self._more(deadline)
        return piece

    def pieces(self, deadline: float, limit_bytes: int) -> Iterator[bytes]:
        """The body, as long as it is not more than this."""
        expected = self._parser.body_bytes
        size = 0 if expected is None else expected
        while size <= limit_bytes and (piece := self.next_piece(deadline)):
            size += len(piece) if expected is None else 0
            yield piece
        if size > limit_bytes:
            raise KubeError(Reason.TOO_LARGE, f"{self._url}: the answer has more than {limit_bytes} bytes")

    def _more(self, deadline: float) -> bytes:
        received = self._connection.receive(deadline)
        try:
            if received:
                self.answered = True
                return self._parser.feed(received)
            self._parser.close()
        except CutOff as error:
            raise KubeError(Reason.UNREACHABLE, f"{self._url}: {error}") from None
        except MessageError as error:
            raise KubeError(Reason.BAD_ANSWER, f"{self._url}: {error}") from None
        return b""
