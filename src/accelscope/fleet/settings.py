"""The fleet's settings, each declared once: flag, environment variable, YAML key, reference page."""

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


@dataclass(frozen=True, slots=True)
class FleetSettings:
    config_file: str | None = setting(
        None,
        CONFIG_FILE,
        "YAML file with these settings. A new log level or format takes effect at once, the rest after a "
        "restart.",
        group="General",
    )
    log_level: str = setting("info", Choice(*LEVELS), "How much to log.", group="General")
    log_format: str = setting("text", Choice(*FORMATS), "Form of a log line.", group="General")

    clusters_file: str | None = setting(
        None,
        PATH,
        "YAML file that lists the clusters; re-read when it changes. Without one: the cluster that kubectl "
        "would talk to, or in a pod the pod's own.",
        group="Clusters",
        reloadable=False,
    )
    kubeconfig: str = setting(
        "",
        TEXT,
        "Kubeconfig to use in the place of ~/.kube/config; several, with colons between, are merged.",
        group="Clusters",
        reloadable=False,
        metavar="PATH",
    )
    kube_context: str = setting(
        "",
        TEXT,
        "Context of the kubeconfig; the current one if not given.",
        group="Clusters",
        reloadable=False,
        metavar="NAME",
    )
    refresh_interval: float = setting(
        15.0,
        Duration(1, 3600),
        "Time between two readings of a cluster.",
        group="Clusters",
        reloadable=False,
    )
    request_timeout: float = setting(
        10.0,
        Duration(0.5, 300),
        "How long one request to a cluster may take.",
        group="Clusters",
        reloadable=False,
    )
    agents_at_once: int = setting(
        64,
        WholeNumber(1, 1000),
        "Agents of one cluster that are asked at the same time.",
        group="Clusters",
        reloadable=False,
    )
    agents_per_second: float = setting(
        500.0,
        Decimal(1, 10_000),
        "Agents of one cluster that are asked each second, at most: the load on its API server.",
        group="Clusters",
        reloadable=False,
    )
    stale_after: float = setting(
        60.0,
        Duration(5, 86400),
        "Age of a reading from which on its node is stale; at least three of the agent's intervals and three "
        "of --refresh-interval.",
        group="Clusters",
        reloadable=False,
    )
    forget_after: float = setting(
        900.0,
        Duration(10, 7 * 86400),
        "Age of a reading from which on it is no longer shown.",
        group="Clusters",
        reloadable=False,
    )

    listen_host: str = setting(
        "127.0.0.1",
        TEXT,
        "Address to listen on; 0.0.0.0 or :: for all. Beyond this machine's own, tokens are needed.",
        group="HTTP",
        reloadable=False,
        metavar="HOST",
    )
    listen_port: int = setting(8080, PORT, "Port to listen on.", group="HTTP", reloadable=False)
    tls_certificate: str | None = setting(
        None,
        PATH,
        "Certificate (PEM, with its chain) to serve HTTPS with. Re-read when it changes.",
        group="HTTP",
        reloadable=False,
    )
    tls_key: str | None = setting(
        None, PATH, "Private key (PEM) of the certificate.", group="HTTP", reloadable=False
    )
    tokens_file: str | None = setting(
        None,
        PATH,
        "YAML file with the hashes of the tokens that are accepted, their scopes and clusters; "
        "`accelscope fleet token create` makes its lines. Re-read when it changes.",
        group="HTTP",
        reloadable=False,
    )
    token_review_cluster: str = setting(
        "",
        TEXT,
        "Id of a cluster whose API server vouches for tokens (TokenReview). With --tokens-file either token "
        "is enough.",
        group="HTTP",
        reloadable=False,
        metavar="ID",
    )
    insecure_no_auth: bool = setting(
        False,
        BOOLEAN,
        "Let everybody who reaches the port read everything, also from other machines.",
        group="HTTP",
        reloadable=False,
    )
    requests_per_second: float = setting(
        50.0,
        Decimal(0.1, 100_000),
        "Requests of one token, or of one address where there are no tokens.",
        group="HTTP",
        reloadable=False,
    )
    requests_burst: int = setting(
        200,
        WholeNumber(1, 1_000_000),
        "Requests that may come at once before that counts.",
        group="HTTP",
        reloadable=False,
    )
    max_streams: int = setting(
        256, WholeNumber(0, 10_000), "Live streams at the same time.", group="HTTP", reloadable=False
    )

    state_folder: str | None = setting(
        None,
        PATH,
        "Folder to keep history in over a restart; nothing is written without it.",
        group="History",
        reloadable=False,
    )

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("--tls-certificate and --tls-key go together: give both or neither")
        if self.forget_after <= self.stale_after:
            raise ConfigError("--forget-after must be longer than --stale-after")
        if self.clusters_file is not None and self.kube_context:
            raise ConfigError("--kube-context and --clusters-file exclude each other: name it in the file")

    @property
    def stale_after_seconds(self) -> float:
        """Three rounds may be missed before anything is called stale."""
        return max(self.stale_after, 3 * self.refresh_interval)

    @property
    def forget_after_seconds(self) -> float:
        return max(self.forget_after, 2 * self.stale_after_seconds)
