"""Reviews by a cluster of the list, which others change."""

import logging
from collections.abc import Iterable

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.fleet.api.access.caller import Caller
from accelscope.fleet.api.access.review import TokenReviews
from accelscope.fleet.api.problem import ProblemKind, later
from accelscope.fleet.api_server import Session
from accelscope.fleet.clusters import ClusterEntry
from accelscope.fleet.clusters.entry import Access

log = logging.getLogger(__name__)

_GONE_SECONDS = 60.0  # until one may ask again whether the cluster is back in the list


class ListedReviews:
    """Of the cluster with this id, as it is listed now. Verdicts are of one way to reach it: another may lead
    to another cluster."""

    def __init__(self, cluster: str, entries: Iterable[ClusterEntry]) -> None:
        """Raises ConfigError where there is none."""
        self._cluster = cluster
        self._access = _access(cluster, entries)
        if self._access is None:
            raise ConfigError(
                f"--token-review-cluster: no cluster of the list has the id {cluster} and an API server"
            )
        self._session = Session(self._access)
        self._reviews = TokenReviews(self._session)

    async def declare(self, entries: Iterable[ClusterEntry]) -> None:
        """The whole list of clusters."""
        access = _access(self._cluster, entries)
        if access == self._access:
            return
        before, self._access = self._session, access
        if access is None:
            log.error(
                "no API server is listed any more for the cluster that vouches for tokens: none is taken",
                extra=fields(cluster=self._cluster),
            )
        else:
            self._session = Session(access)
            self._reviews = TokenReviews(self._session)
            log.info("tokens are reviewed as the new list says", extra=fields(cluster=self._cluster))
        await before.close()

    async def caller(self, token: str) -> Caller | None:
        """None: not known there. Raises Problem where the cluster cannot be asked."""
        if self._access is None:
            text = "no API server is listed any more for the cluster that knows the tokens"
            raise later(ProblemKind.CANNOT_REVIEW, text, _GONE_SECONDS)
        return await self._reviews.caller(token)

    def knows(self, token: str) -> bool:
        return self._access is not None and self._reviews.knows(token)

    async def close(self) -> None:
        await self._reviews.close()
        await self._session.close()


def _access(cluster: str, entries: Iterable[ClusterEntry]) -> Access | None:
    return next((entry.access for entry in entries if entry.id == cluster), None)
