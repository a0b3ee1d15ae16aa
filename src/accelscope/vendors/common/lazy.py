"""Readers whose source is loaded only on a node that has something of their vendor: half a mebibyte each that
other nodes' agents do without."""

from abc import ABC, abstractmethod
from typing import Protocol

from accelscope.model import Reading, Vendor
from accelscope.vendors.common.contract import ReaderOptions, Survey


class Source(Protocol):
    """What a reader hands its questions on to."""

    def survey(self) -> Survey: ...

    def read(self, key: str) -> Reading: ...

    def close(self) -> None: ...


class LazyReader(ABC):
    vendor: Vendor

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._source: Source | None = None

    def survey(self) -> Survey:
        self._look_for_driver()
        if self._source is None:
            self._source = self._load_source()
        return self._source.survey()

    def read(self, key: str) -> Reading:
        assert self._source is not None  # a survey named the key
        return self._source.read(key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    @abstractmethod
    def _look_for_driver(self) -> None:
        """Raises DriverAbsent where nothing of the vendor is on the node."""

    @abstractmethod
    def _load_source(self) -> Source: ...
