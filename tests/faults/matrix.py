"""Faults around an agent, as data: what keeps working, what is counted, and how soon the agent recovers.

`breaks.py` injects them, `test_fault_matrix.py` runs a real agent through each, and `reference.py` makes
docs/faults.md.
"""

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    DRIVER = "Drivers"
    TOOL = "Tools of drivers"
    PROCESS = "Processes"
    KUBERNETES = "Kubernetes"
    FILE = "Files and disks"
    MACHINE = "Limits and clocks"
    HTTP = "HTTP"
    SIGNAL = "Signals"


class Site(StrEnum):
    """The simulated node of the agent."""

    LIBRARY = "four GPUs, read through their library"
    TOOL = "four GPUs, read through their tool"
    PODS = "two GPUs that pods share, with an API server and a kubelet"
    ONE_PID = "a GPU on which two pods get the same pid one after the other"
    NODE_OBJECT = "an agent that writes the Node's annotation"
    FEATURE_FILE = "an agent that writes a file for Node Feature Discovery, on a separate disk"
    TLS = "an agent with TLS and a token"


class Stale(StrEnum):
    """Which devices cannot be read during the fault."""

    NONE = "none"
    ONE = "one"
    SOME = "some"  # depends on chance
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    part: Part
    broken: str
    stays: str
    # Series that increase, with alternatives for names and labels. Without any, `told` describes the effect.
    counted: tuple[str, ...] = ()
    told: str = ""
    # Time to recover on an idle machine: in collections, or in seconds if backoff, polling of files, a tool's
    # timeout or a start determine it.
    collections: int = 0
    seconds: float = 0.0
    site: Site = Site.LIBRARY
    stale: Stale = Stale.NONE
    pods_stay: bool = True  # False: attribution is unknown or changes
    probed: bool = True  # False: the agent itself ends
    lost: bool = False  # True: stale devices are reported as lost
    untouched: bool = False  # True: at least one device is complete
    answer_seconds: float = 2.0  # for `/healthz` and `/metrics` during the fault
    refused_seconds: float = 0.0  # how long new clients may get 503
    needs_root: bool = False
    shown_by: tuple[str, ...] = ()  # further tests: path::name


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A fault of another program of ours, which its own tests show."""

    program: str
    broken: str
    stays: str
    shown_by: tuple[str, ...]


def _reader(reason: str) -> tuple[str, ...]:
    return (f'accelscope_reader_errors_total{{vendor="nvidia",reason="{reason}"}}',)


def _source(source: str, reason: str) -> tuple[str, ...]:
    return (f'accelscope_attribution_source_errors_total{{source="{source}",reason="{reason}"}}',)


def _sink(sink: str, reason: str) -> tuple[str, ...]:
    return (f'accelscope_sink_errors_total{{sink="{sink}",reason="{reason}"}}',)


_AGENT = "tests/agent/test_faults.py::"
_ERRORS = "tests/agent/test_errors_over_restart.py::"
_LASTING = "tests/vendors/test_lasting_errors.py::"
_RUNNER = "tests/agent/test_runner.py::"
_TOOL = "tests/vendors/common/test_tool.py::"
_PODS = "tests/agent/test_attribution.py::"
_WATCH = "tests/kube/test_kube_informer.py::"
_CLIENT = "tests/kube/test_kube_client.py::"
_UNARY = "tests/kube/test_unary.py::"
_PROCESSES = "tests/attribution/test_processes.py::"
_ANNOTATION = "tests/sinks/test_annotation_sink.py::"
_LABELS = "tests/sinks/test_label_sinks.py::"
_LIMITS = "tests/serve/test_limits.py::"
_TLS = "tests/serve/test_tls.py::"

MATRIX: tuple[Fault, ...] = (
    # drivers
    Fault(
        name="driver-call-hangs",
        part=Part.DRIVER,
        broken="calls on one device never return",
        stays="the other devices; the device keeps its identity and loses its values; one thread is lost",
        counted=_reader("timeout"),
        collections=3,
        stale=Stale.ONE,
        shown_by=(
            _RUNNER + "test_only_the_hung_device_is_stale_and_it_is_not_read_until_its_call_returns",
            _LASTING + "test_the_firmware_error_of_a_gpu_that_hangs_stays",
        ),
    ),
    Fault(
        name="library-hangs",
        part=Part.DRIVER,
        broken="every call of the driver's library blocks",
        stays="the page, with the devices' identity; `/readyz` is 503 if no driver responds",
        counted=_reader("timeout"),
        collections=3,
        stale=Stale.ALL,
        shown_by=(_RUNNER + "test_a_blocked_library_costs_one_deadline_per_pass",),
    ),
    Fault(
        name="device-lost",
        part=Part.DRIVER,
        broken="a device falls off the bus and comes back",
        stays="the other devices; the device is shown as lost",
        counted=_reader("lost"),
        collections=3,
        stale=Stale.ONE,
        lost=True,
        shown_by=(_AGENT + "test_a_lost_device_through_the_tool",),
    ),
    Fault(
        name="device-vanishes",
        part=Part.DRIVER,
        broken="the driver no longer lists a device, and the numbers of the others change",
        stays="the other devices under their own ids; the device is shown as lost",
        told="`accelscope_reader_devices_seen` falls below `accelscope_reader_devices_expected`",
        collections=3,
        stale=Stale.ONE,
        lost=True,
        shown_by=(
            _AGENT + "test_a_device_that_is_no_longer_listed_is_lost",
            _AGENT + "test_a_lost_device_and_a_missing_device_are_counted_separately",
        ),
    ),
    Fault(
        name="driver-unloaded",
        part=Part.DRIVER,
        broken="the kernel module is unloaded, and loaded again",
        stays="the page, with the devices' identity",
        counted=_reader("driver_not_loaded"),
        collections=3,
        stale=Stale.ALL,
    ),
    Fault(
        name="driver-upgraded",
        part=Part.DRIVER,
        broken="the kernel module is replaced by one of another version than the library",
        stays="the page, with the devices' identity",
        counted=_reader("version_mismatch"),
        collections=3,
        stale=Stale.ALL,
    ),
    Fault(
        name="mig-changes",
        part=Part.DRIVER,
        broken="MIG instances of a GPU are created and removed",
        stays="all devices; the next collection shows the change",
        told="partitions of the device on the page",
        collections=2,
        shown_by=(
            "tests/vendors/nvidia/test_nvml_faults.py::test_calls_see_each_new_state_whole_while_it_changes",
        ),
    ),
    # tools
    Fault(
        name="tool-hangs",
        part=Part.TOOL,
        broken="the driver's tool does not return",
        stays="the page, with the devices' identity; the tool and its children are killed",
        counted=_reader("tool_timeout|timeout"),
        collections=5,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=(_TOOL + "test_a_tool_that_hangs_is_killed_with_its_children",),
    ),
    Fault(
        name="tool-killed",
        part=Part.TOOL,
        broken="the tool is killed while it prints",
        stays="the page, with the devices' identity; incomplete output is discarded",
        counted=_reader("tool_killed"),
        collections=3,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=(_TOOL + "test_reasons",),
    ),
    Fault(
        name="tool-lingers",
        part=Part.TOOL,
        broken="the tool closes its output and does not end, nor do its children",
        stays="the page, with the devices' identity; the tool has a second to end, then it is killed",
        counted=_reader("tool_timeout|timeout"),
        seconds=3,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=(
            _TOOL + "test_a_tool_that_closes_its_output_but_does_not_end",
            _TOOL + "test_children_that_outlive_a_killed_tool_are_killed_too",
        ),
    ),
    Fault(
        name="tool-truncated",
        part=Part.TOOL,
        broken="the tool's output ends in the middle",
        stays="complete devices; the others are stale, not lost",
        counted=('accelscope_reader_errors_total|accelscope_reader_rejected_values_total{vendor="nvidia"}',),
        collections=3,
        site=Site.TOOL,
        stale=Stale.SOME,
        untouched=True,
    ),
    Fault(
        name="tool-garbage",
        part=Part.TOOL,
        broken="the tool prints something else",
        stays="the page, with the devices' identity",
        counted=('accelscope_reader_errors_total{vendor="nvidia"}',),
        collections=3,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=("tests/vendors/nvidia/test_parse_hostile.py",),
    ),
    Fault(
        name="tool-not-utf8",
        part=Part.TOOL,
        broken="the tool's output contains bytes that are not UTF-8",
        stays="undamaged values; the ids of all devices",
        counted=('accelscope_reader_errors_total|accelscope_reader_rejected_values_total{vendor="nvidia"}',),
        collections=3,
        site=Site.TOOL,
        stale=Stale.SOME,
        untouched=True,
        shown_by=(_TOOL + "test_what_is_not_utf8_is_replaced",),
    ),
    Fault(
        name="tool-floods",
        part=Part.TOOL,
        broken="the tool prints without end",
        stays="the page, with the devices' identity; no more than 16 MiB are read",
        counted=_reader("tool_output_too_big"),
        collections=3,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=(
            _TOOL + "test_reasons",
            _TOOL + "test_floods_on_the_error_channel_do_not_block_it",
        ),
    ),
    Fault(
        name="tool-without-memory",
        part=Part.TOOL,
        broken="the tool gets no memory (ENOMEM in the child)",
        stays="the page, with the devices' identity",
        counted=('accelscope_reader_errors_total{vendor="nvidia"}',),
        collections=3,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=(_TOOL + "test_a_tool_that_cannot_be_started",),
    ),
    Fault(
        name="tool-missing",
        part=Part.TOOL,
        broken="the tool's file is removed and restored",
        stays="the page, with the devices' identity",
        counted=_reader("driver_absent"),
        collections=3,
        site=Site.TOOL,
        stale=Stale.ALL,
        shown_by=(_TOOL + "test_a_missing_tool",),
    ),
    # processes
    Fault(
        name="proc-race",
        part=Part.PROCESS,
        broken="processes end between the driver's list and the read of `/proc`, or during it",
        stays="all devices and their memory; the use of these processes is `unattributed`, with the reason",
        counted=('accelerator_unattributed_processes{reason="process_gone"}',),
        collections=10,
        site=Site.PODS,
        pods_stay=False,
        shown_by=(
            _PROCESSES + "test_an_ended_process_is_not_found",
            _PROCESSES + "test_an_incomplete_process_counts_as_ended",
        ),
    ),
    Fault(
        name="pid-reuse",
        part=Part.PROCESS,
        broken="a process of another pod gets the pid of one that ended",
        stays="the process is not attributed to the old pod",
        told="the new pod's name, once the API server has sent it",
        collections=5,
        site=Site.ONE_PID,
        pods_stay=False,
        shown_by=(
            _PODS + "test_a_pod_that_ends_disappears_and_its_reused_pid_is_not_attributed_to_it",
            _PROCESSES + "test_a_reused_pid_is_not_mistaken_for_the_old_process",
        ),
    ),
    # Kubernetes
    Fault(
        name="kubelet-restarts",
        part=Part.KUBERNETES,
        broken="the kubelet's socket is removed and created again",
        stays="all devices; allocations stay for 60 s",
        counted=_source("pod-resources", "no_socket"),
        collections=3,
        site=Site.PODS,
        shown_by=(
            _PODS + "test_a_restarted_kubelet_is_called_again",
            _UNARY + "test_a_server_that_comes_back_is_found_again",
        ),
    ),
    Fault(
        name="kubelet-gone-socket-left",
        part=Part.KUBERNETES,
        broken="the kubelet's socket exists, and no process listens on it",
        stays="all devices; allocations stay for 60 s",
        counted=_source("pod-resources", "refused"),
        collections=3,
        site=Site.PODS,
        shown_by=(_UNARY + "test_a_socket_that_nobody_serves",),
    ),
    Fault(
        name="kubelet-hangs",
        part=Part.KUBERNETES,
        broken="the kubelet accepts the connection and does not respond",
        stays="all devices; allocations stay for 60 s",
        counted=_source("pod-resources", "timeout"),
        seconds=5,
        site=Site.PODS,
        shown_by=(
            "tests/attribution/test_pod_resources.py::test_a_kubelet_that_hangs",
            _UNARY + "test_a_peer_that_says_nothing",
        ),
    ),
    Fault(
        name="api-server-gone",
        part=Part.KUBERNETES,
        broken="the API server refuses connections",
        stays="all devices; pods known so far",
        counted=_source("pods", "unreachable"),
        seconds=8,
        site=Site.PODS,
        shown_by=(
            _PODS + "test_known_pods_stay_while_the_api_server_is_unreachable",
            _WATCH + "test_while_it_is_down_the_last_known_stay",
            _WATCH + "test_the_pauses_grow_to_a_minute",
        ),
    ),
    Fault(
        name="api-server-cuts",
        part=Part.KUBERNETES,
        broken="the API server closes every connection during a response",
        stays="all devices; pods known so far",
        counted=_source("pods", "unreachable|bad_answer"),
        seconds=8,
        site=Site.PODS,
        shown_by=(
            _WATCH + "test_after_a_disconnect_it_goes_on_where_it_was",
            _CLIENT + "TestStreams::test_a_disconnect_is_not_an_end",
        ),
    ),
    Fault(
        name="api-server-slow",
        part=Part.KUBERNETES,
        broken="the API server accepts requests and does not respond",
        stays="all devices; pods known so far",
        counted=_source("pods", "timeout"),
        seconds=8,
        site=Site.PODS,
        shown_by=(
            _CLIENT + "TestReach::test_who_does_not_answer_in_time",
            _ANNOTATION + "test_a_hanging_server_delays_neither_collections_nor_stopping",
        ),
    ),
    Fault(
        name="api-server-401",
        part=Part.KUBERNETES,
        broken="the API server rejects the token until there is a new one",
        stays="all devices; pods known so far; a new token is tried within a second",
        counted=_source("pods", "unauthorized"),
        seconds=5,
        site=Site.PODS,
        shown_by=(_WATCH + "test_a_new_token_is_tried_at_once",),
    ),
    Fault(
        name="api-server-403",
        part=Part.KUBERNETES,
        broken="the API server forbids the request until there is a token with permission",
        stays="all devices; pods known so far; without a new token it backs off",
        counted=_source("pods", "forbidden"),
        seconds=5,
        site=Site.PODS,
        shown_by=(_WATCH + "test_who_is_refused_asks_more_and_more_seldom",),
    ),
    Fault(
        name="api-server-410",
        part=Part.KUBERNETES,
        broken="the API server no longer has the version from which the watch continues",
        stays="all devices; all pods, listed again",
        counted=_source("pods", "gone"),
        seconds=5,
        site=Site.PODS,
        shown_by=(
            _WATCH + "test_where_the_version_is_gone_it_lists_anew",
            _WATCH + "test_a_cache_that_is_behind_is_not_asked_again",
        ),
    ),
    Fault(
        name="api-server-429",
        part=Part.KUBERNETES,
        broken="the API server responds with Retry-After",
        stays="all devices; pods known so far; the agent waits that long",
        counted=_source("pods", "throttled"),
        seconds=8,
        site=Site.PODS,
        shown_by=(_WATCH + "test_who_is_throttled_waits_as_long_as_he_is_told",),
    ),
    Fault(
        name="api-server-500",
        part=Part.KUBERNETES,
        broken="the API server responds with 5xx",
        stays="all devices; pods known so far",
        counted=_source("pods", "server_error"),
        seconds=8,
        site=Site.PODS,
        shown_by=(_WATCH + "test_a_version_that_the_server_chokes_on_is_given_up",),
    ),
    Fault(
        name="api-server-garbage",
        part=Part.KUBERNETES,
        broken="the API server's response is neither a list nor an event",
        stays="all devices; pods known so far",
        counted=_source("pods", "bad_answer"),
        seconds=8,
        site=Site.PODS,
        shown_by=(
            _WATCH + "test_a_list_that_is_none_takes_nothing_away",
            _WATCH + "test_a_watch_that_is_none",
        ),
    ),
    Fault(
        name="node-patch-409",
        part=Part.KUBERNETES,
        broken="writes of the Node end with a conflict",
        stays="all devices and the page; the last annotation stays",
        counted=_sink("annotation", "conflict"),
        seconds=8,
        site=Site.NODE_OBJECT,
        shown_by=(_ANNOTATION + "test_it_recovers_and_counts_errors",),
    ),
    Fault(
        name="node-patch-403",
        part=Part.KUBERNETES,
        broken="the permission to patch the Node is revoked until there is a token that has it",
        stays="all devices and the page; the last annotation stays",
        counted=_sink("annotation", "forbidden"),
        seconds=8,
        site=Site.NODE_OBJECT,
        shown_by=(
            "tests/agent/test_node_object.py::test_a_rejected_write_affects_only_the_annotation",
            _ANNOTATION + "test_a_missing_permission_is_retried_soon_after_other_failures",
        ),
    ),
    # files and disks
    Fault(
        name="token-rotates",
        part=Part.FILE,
        broken="the agent's token for the API server is replaced while a watch is open",
        stays="all devices; all pods; the new token is used from the next request on",
        told="nothing",
        seconds=5,
        site=Site.PODS,
        shown_by=(_CLIENT + "TestRequests::test_a_rotated_token_is_used_for_the_next_request",),
    ),
    Fault(
        name="readers-token-rotates",
        part=Part.FILE,
        broken="the token of clients is replaced",
        stays="the page, for the old and the new token while the file contains both",
        told="`tokens reloaded` in the log",
        seconds=3,
        site=Site.TLS,
        shown_by=("tests/serve/test_tokens.py::test_tokens_change_while_running",),
    ),
    Fault(
        name="certificate-rotates",
        part=Part.FILE,
        broken="certificate and key are replaced, and do not match in between",
        stays="the page; a certificate and key that do not match are not used",
        told="the new certificate, and a line in the log",
        seconds=3,
        site=Site.TLS,
        shown_by=(_TLS + "test_certificates_change_while_running",),
    ),
    Fault(
        name="settings-garbage",
        part=Part.FILE,
        broken="the settings file is replaced by an invalid one",
        stays="the previous settings",
        counted=('accelscope_config_reloads_total{result="rejected"}',),
        collections=5,
        shown_by=(
            "tests/agent/test_reload.py::test_an_invalid_file_keeps_the_old_settings_and_is_logged_once",
        ),
    ),
    Fault(
        name="disk-full",
        part=Part.FILE,
        broken="the disk of the feature file is full",
        stays="all devices and the page; no incomplete or temporary file",
        counted=_sink("feature-file", "no_space"),
        seconds=8,
        site=Site.FEATURE_FILE,
        needs_root=True,
        shown_by=(_LABELS + "test_a_file_is_replaced_atomically",),
    ),
    Fault(
        name="disk-read-only",
        part=Part.FILE,
        broken="the disk of the feature file is mounted read-only",
        stays="all devices and the page",
        counted=_sink("feature-file", "read_only"),
        seconds=8,
        site=Site.FEATURE_FILE,
        needs_root=True,
        shown_by=(_LABELS + "test_a_missing_folder_is_reported_and_used_once_it_exists",),
    ),
    Fault(
        name="log-cannot-be-written",
        part=Part.FILE,
        broken="the disk of the log is full",
        stays="everything but the log",
        counted=_reader("lost"),
        collections=3,
        stale=Stale.ONE,
        lost=True,
        needs_root=True,
    ),
    # limits and clocks
    Fault(
        name="no-descriptors",
        part=Part.MACHINE,
        broken="the agent is out of file descriptors (EMFILE)",
        stays="the page; devices read without opening files; new clients replace idle ones, two a second",
        counted=('accelscope_attribution_source_errors_total{source="pod-resources|processes"}',),
        collections=10,
        site=Site.PODS,
        stale=Stale.SOME,
        pods_stay=False,
        answer_seconds=10,
        shown_by=(
            _LIMITS + "test_without_descriptors_it_waits_and_then_goes_on",
            _LIMITS + "test_without_descriptors_an_idle_connection_makes_room",
        ),
    ),
    Fault(
        name="clock-jumps",
        part=Part.MACHINE,
        broken="the clock is set a day ahead, then two days back",
        stays="all devices, at the same interval; counters do not decrease",
        told="`accelscope_collection_timestamp_seconds`",
        collections=2,
        site=Site.PODS,
        shown_by=(
            "tests/attribution/test_host_use.py::test_the_boot_time_is_read_again_when_the_clock_was_set",
        ),
    ),
    # HTTP
    Fault(
        name="slow-loris",
        part=Part.HTTP,
        broken="more clients than the limit send a request byte by byte",
        stays="the page, for all others; they may get 503 in the first second",
        told="`408`, or the connection ends",
        answer_seconds=5,
        refused_seconds=1,
        collections=2,
        shown_by=(
            _LIMITS + "test_slow_lorises_give_way",
            _LIMITS + "test_dripping_bytes_does_not_move_the_deadline",
        ),
    ),
    Fault(
        name="slow-readers",
        part=Part.HTTP,
        broken="more clients than the limit request the page and do not read it",
        stays="the page, for all others; they may get 503 in the first second",
        told="the connection ends",
        answer_seconds=5,
        refused_seconds=1,
        collections=2,
        shown_by=(
            _LIMITS + "test_slow_readers_give_way",
            _LIMITS + "test_a_client_that_does_not_read_is_dropped_and_nobody_waits_for_it",
        ),
    ),
    Fault(
        name="oversized-http",
        part=Part.HTTP,
        broken="requests with an oversized line, head or body, and malformed ones",
        stays="the page, for all others",
        told="`414`, `431`, `413`, `400`",
        collections=2,
        shown_by=("tests/serve/test_message.py::test_refusals",),
    ),
    Fault(
        name="clients-reset",
        part=Part.HTTP,
        broken="clients end the connection at any moment",
        stays="the page, for all others",
        told="nothing",
        collections=2,
        shown_by=("tests/serve/test_server.py::test_resets_at_any_moment_cost_nothing",),
    ),
    Fault(
        name="tls-garbage",
        part=Part.HTTP,
        broken="bytes that are not TLS, incomplete handshakes, and plain HTTP on a TLS port",
        stays="the page, for all others",
        told="the connection is closed; plain HTTP gets an error that names HTTPS",
        collections=2,
        site=Site.TLS,
        shown_by=(
            _TLS + "test_garbage_instead_of_a_handshake_costs_nothing",
            _TLS + "test_plain_http_is_told_so",
        ),
    ),
    # signals
    Fault(
        name="sigterm",
        part=Part.SIGNAL,
        broken="SIGTERM at any time, while tools run",
        stays="the agent ends at once, also while a tool hangs, and no tool is left running",
        told="exit code 0; before it listens, that of the signal",
        seconds=3,
        site=Site.TOOL,
        probed=False,
        shown_by=(
            _AGENT + "test_sigterm_ends_the_agent_at_once_while_the_library_hangs",
            _AGENT + "test_sigterm_to_a_stopped_agent_is_not_lost",
            _TOOL + "test_the_end_of_the_program_ends_what_runs_with_its_children",
            _TOOL + "test_the_end_of_the_program_waits_for_one_that_is_just_being_started",
            _TOOL + "test_at_the_end_of_the_program_none_is_started",
        ),
    ),
    Fault(
        name="sigkill",
        part=Part.SIGNAL,
        broken="SIGKILL at any time",
        stays="the next agent starts normally; with a state folder, lasting errors of devices are kept",
        told="`accelscope_start_timestamp_seconds`",
        seconds=3,
        site=Site.TOOL,
        probed=False,
        shown_by=(
            _LABELS + "test_files_of_a_killed_writer_are_removed_with_the_next_write",
            _ERRORS + "test_the_error_stays_after_a_restart_and_ends_with_a_reset",
            _ERRORS + "test_with_a_damaged_file_the_agent_starts_and_writes_another",
        ),
    ),
)

_MIXED = "tests/agent/test_mixed_node.py::"

OTHER_VENDORS = (
    _MIXED + "test_a_hanging_vendor_does_not_affect_the_others",
    _MIXED + "test_a_hanging_tool_loses_only_its_own_values",
    _MIXED + "test_a_device_whose_files_hang_is_the_only_stale_one",
)

_PLUGIN = "tests/deviceplugin/test_plugin_and_kubelet.py::"
_INFORMER = "tests/fleet/api_server/test_informer.py::"
_SESSION = "tests/fleet/api_server/test_session.py::"
_STATE = "tests/fleet/history/test_state_file.py::"

ELSEWHERE: tuple[Elsewhere, ...] = (
    Elsewhere(
        program="device plugin",
        broken="the kubelet restarts, empties its folder or drops the plugin",
        stays="it registers again",
        shown_by=(
            _PLUGIN + "test_the_plugin_registers_again_when_the_kubelet_restarts",
            _PLUGIN + "test_the_plugin_registers_again_when_its_socket_was_removed",
            _PLUGIN + "test_the_plugin_registers_again_when_the_kubelet_closes_its_stream",
        ),
    ),
    Elsewhere(
        program="device plugin",
        broken="a card hangs, is unhealthy, or its files disappear for a moment",
        stays="only that card is unhealthy, and it recovers",
        shown_by=(
            _PLUGIN + "test_a_card_that_hangs_is_unhealthy_and_does_not_delay_the_others",
            _PLUGIN + "test_a_device_becomes_unhealthy_and_healthy_again",
            _PLUGIN + "test_missing_device_files_make_a_card_unhealthy_until_they_are_back",
        ),
    ),
    Elsewhere(
        program="device plugin",
        broken="a client sends garbage, or opens many streams",
        stays="all other calls",
        shown_by=(
            _PLUGIN + "test_a_malformed_request_affects_only_its_caller",
            _PLUGIN + "test_too_many_streams_do_not_block_other_calls",
        ),
    ),
    Elsewhere(
        program="device plugin",
        broken="it is restarted, and a socket is left over",
        stays="the kubelet finds it",
        shown_by=(
            _PLUGIN + "test_a_restarted_plugin_registers_again",
            _PLUGIN + "test_a_stale_socket_is_replaced",
        ),
    ),
    Elsewhere(
        program="fleet",
        broken="an API server is unreachable, expires versions, ends watches or sends garbage",
        stays="the last state with its age; other clusters",
        shown_by=(
            _INFORMER + "test_a_short_disconnect_is_no_error_and_a_long_one_keeps_the_items",
            _INFORMER + "test_an_expired_resource_version_causes_a_new_list",
            _INFORMER + "test_an_invalid_event_ends_the_watch",
            _SESSION + "test_a_hostile_response_is_limited_in_time_and_size",
        ),
    ),
    Elsewhere(
        program="fleet",
        broken="tokens, CAs and certificates are replaced",
        stays="everything, without a restart",
        shown_by=(
            _SESSION + "test_a_rotated_token_is_used_after_401",
            _SESSION + "test_a_rotated_ca_is_used_without_a_restart",
            "tests/test_certificate_files.py::test_a_new_certificate_is_shown_and_a_bad_one_is_not_taken",
        ),
    ),
    Elsewhere(
        program="fleet",
        broken="the disk of its history is full, or its file is damaged",
        stays="the page; the previous file stays, a damaged one is renamed",
        shown_by=(
            _STATE + "test_a_full_disk_keeps_the_previous_file",
            _STATE + "test_an_unreadable_file_is_renamed_and_logged",
        ),
    ),
    Elsewhere(
        program="fleet",
        broken="an agent sends wrong data, hangs or sends too much",
        stays="all other nodes",
        shown_by=(
            "tests/fleet/sources/test_agents_source.py::test_an_invalid_agent_affects_only_its_own_node",
            "tests/fleet/sources/test_agents_source.py::test_an_agent_that_exceeds_the_limits_of_a_node_is_rejected",
        ),
    ),
    Elsewhere(
        program="fleet",
        broken="a credential plugin hangs or leaves children",
        stays="the plugin and its children are ended in time",
        shown_by=(
            "tests/fleet/api_server/test_credential_plugin.py::test_a_hanging_plugin_is_killed_with_its_children",
        ),
    ),
)
