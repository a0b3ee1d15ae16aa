"""The settings of the fleet. Each is declared once as flag, environment variable, YAML key and
documentation."""

from dataclasses import dataclass

from accelscope.config import (
    BOOLEAN,
    CONFIG_FILE,
    PATH,
    PORT,
    TEXT,
    Choice,
    ConfigError,
    Decimal,
    Duration,
    WholeNumber,
    setting,
)
from accelscope.config.log import FORMATS, LEVELS

# Groups of settings
_CLUSTERS = "Clusters and how they are read"
_SERVING = "Serving and restricting access"


@dataclass(frozen=True, slots=True)
class FleetSettings:
    config_file: str | None = setting(
        None,
        CONFIG_FILE,
        "YAML file with these settings. A new log level or format takes effect at once, the rest after a "
        "restart.",
        group="Configuration and log",
    )
    log_level: str = setting("info", Choice(*LEVELS), "How much to log.", group="Configuration and log")
    log_format: str = setting("text", Choice(*FORMATS), "Format of log lines.", group="Configuration and log")

    clusters_file: str | None = setting(
        None,
        PATH,
        "YAML file that lists the clusters; reloaded when it changes. Default: the cluster that kubectl "
        "uses, or in a pod the pod's own.",
        group=_CLUSTERS,
        reloadable=False,
    )
    kubeconfig: str = setting(
        "",
        TEXT,
        "Kubeconfig instead of ~/.kube/config; several files separated by colons are merged.",
        group=_CLUSTERS,
        reloadable=False,
        metavar="PATH",
    )
    kube_context: str = setting(
        "",
        TEXT,
        "Context of the kubeconfig; default: the current one.",
        group=_CLUSTERS,
        reloadable=False,
        metavar="NAME",
    )
    refresh_interval: float = setting(
        15.0,
        Duration(1, 3600),
        "Interval between two reads of a cluster.",
        group=_CLUSTERS,
        reloadable=False,
    )
    request_timeout: float = setting(
        10.0,
        Duration(0.5, 300),
        "Timeout of one request to a cluster.",
        group=_CLUSTERS,
        reloadable=False,
        deprecated="the default suits all clusters; remove this setting.",
    )
    agents_at_once: int = setting(
        64,
        WholeNumber(1, 1000),
        "Concurrent requests to the agents of one cluster.",
        group=_CLUSTERS,
        reloadable=False,
        deprecated="use --agents-per-second to limit the load on an API server.",
    )
    agents_per_second: float = setting(
        500.0,
        Decimal(1, 10_000),
        "Requests per second to the agents of one cluster; limits the load on its API server.",
        group=_CLUSTERS,
        reloadable=False,
    )
    stale_after: float = setting(
        60.0,
        Duration(5, 86400),
        "Age at which a reading makes its node stale; at least three of the agent's intervals and three "
        "times --refresh-interval.",
        group=_CLUSTERS,
        reloadable=False,
    )
    forget_after: float = setting(
        900.0,
        Duration(10, 7 * 86400),
        "Age at which a reading is removed.",
        group=_CLUSTERS,
        reloadable=False,
    )

    listen_host: str = setting(
        "127.0.0.1",
        TEXT,
        "Address to listen on; 0.0.0.0 or :: for all. Addresses other than loopback require tokens.",
        group=_SERVING,
        reloadable=False,
        metavar="HOST",
    )
    listen_port: int = setting(8080, PORT, "Port to listen on.", group=_SERVING, reloadable=False)
    tls_certificate: str | None = setting(
        None,
        PATH,
        "Certificate for HTTPS (PEM, with its chain). Reloaded when it changes.",
        group=_SERVING,
        reloadable=False,
    )
    tls_key: str | None = setting(
        None, PATH, "Private key (PEM) of the certificate.", group=_SERVING, reloadable=False
    )
    tokens_file: str | None = setting(
        None,
        PATH,
        "YAML file with the hashes of accepted tokens, their scopes and clusters; create entries with "
        "`accelscope fleet token create`. Reloaded when it changes.",
        group=_SERVING,
        reloadable=False,
    )
    token_review_cluster: str = setting(
        "",
        TEXT,
        "Id of the cluster whose API server reviews tokens (TokenReview). Can be combined with "
        "--tokens-file.",
        group=_SERVING,
        reloadable=False,
        metavar="ID",
    )
    insecure_no_auth: bool = setting(
        False,
        BOOLEAN,
        "Serve without tokens on addresses other than loopback: everyone who can reach the port can read "
        "all data.",
        group=_SERVING,
        reloadable=False,
    )
    requests_per_second: float = setting(
        50.0,
        Decimal(0.1, 100_000),
        "Rate limit per token, or per address without tokens.",
        group=_SERVING,
        reloadable=False,
    )
    requests_burst: int = setting(
        200,
        WholeNumber(1, 1_000_000),
        "Burst of the rate limit.",
        group=_SERVING,
        reloadable=False,
        deprecated="use --requests-per-second.",
    )
    max_streams: int = setting(
        256,
        WholeNumber(0, 10_000),
        "Maximum number of live streams.",
        group=_SERVING,
        reloadable=False,
        deprecated="the default is enough for all viewers of one process; remove this setting.",
    )

    state_folder: str | None = setting(
        None,
        PATH,
        "Folder that keeps history across restarts; without it nothing is written.",
        group="History",
        reloadable=False,
    )

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("--tls-certificate and --tls-key must be set together")
        if self.forget_after <= self.stale_after:
            raise ConfigError("--forget-after must be longer than --stale-after")
        if self.clusters_file is not None and self.kube_context:
            raise ConfigError(
                "--kube-context and --clusters-file exclude each other; set the context in the file"
            )

    @property
    def stale_after_seconds(self) -> float:
        """A node becomes stale after three missed rounds at the earliest."""
        return max(self.stale_after, 3 * self.refresh_interval)

    @property
    def forget_after_seconds(self) -> float:
        return max(self.forget_after, 2 * self.stale_after_seconds)
