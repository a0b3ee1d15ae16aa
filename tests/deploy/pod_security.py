"""The Pod Security Standards, as Kubernetes publishes them: which controls of its levels a pod breaks.

Only fields that pods of Linux have; the controls are named as the standard names them.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

# What each level forbids or requires. Added capabilities are checked for both levels.
_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_RESTRICTED_CAPABILITIES = {"NET_BIND_SERVICE"}
_RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
    "secret",
}  # fmt: skip
_SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}  # fmt: skip
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_CONFINED = {"RuntimeDefault", "Localhost"}
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


class Control(Enum):
    HOST_NAMESPACES = "Host Namespaces"
    PRIVILEGED = "Privileged Containers"
    CAPABILITIES = "Capabilities"
    HOST_PATH = "HostPath Volumes"
    HOST_PORTS = "Host Ports"
    HOST_PROBES = "Host Probes / Lifecycle Hooks"
    APPARMOR = "AppArmor"
    SELINUX = "SELinux"
    PROC_MOUNT = "/proc Mount Type"
    SECCOMP = "Seccomp"
    SYSCTLS = "Sysctls"
    VOLUME_TYPES = "Volume Types"
    ESCALATION = "Privilege Escalation"
    NON_ROOT = "Running as Non-root"
    NON_ROOT_USER = "Running as Non-root user"


def broken_of_baseline(pod: dict[str, Any]) -> set[Control]:
    """`pod` is a pod specification. The old AppArmor annotations are not checked."""
    return set(_baseline(pod))


def broken_of_restricted(pod: dict[str, Any]) -> set[Control]:
    """Including the controls of `baseline`."""
    return broken_of_baseline(pod) | set(_restricted(pod))


def _baseline(pod: dict[str, Any]) -> Iterator[Control]:
    if any(pod.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")):
        yield Control.HOST_NAMESPACES
    if any("hostPath" in volume for volume in pod.get("volumes", [])):
        yield Control.HOST_PATH
    context = pod.get("securityContext", {})
    if any(each["name"] not in _SAFE_SYSCTLS for each in context.get("sysctls", [])):
        yield Control.SYSCTLS
    yield from _unconfined(context)
    for container in _containers(pod):
        own = container.get("securityContext", {})
        if own.get("privileged"):
            yield Control.PRIVILEGED
        if not _added(own) <= _BASELINE_CAPABILITIES:
            yield Control.CAPABILITIES
        if own.get("procMount", "Default") != "Default":
            yield Control.PROC_MOUNT
        if any(port.get("hostPort") for port in container.get("ports", [])):
            yield Control.HOST_PORTS
        hooks = [container.get(name, {}) for name in _PROBES] + list(container.get("lifecycle", {}).values())
        if any(hook.get(kind, {}).get("host") for hook in hooks for kind in ("httpGet", "tcpSocket")):
            yield Control.HOST_PROBES
        yield from _unconfined(own)


def _unconfined(context: dict[str, Any]) -> Iterator[Control]:
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield Control.APPARMOR
    if context.get("seccompProfile", {}).get("type") == "Unconfined":
        yield Control.SECCOMP
    selinux = context.get("seLinuxOptions", {})
    if selinux.get("type", "") not in _SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield Control.SELINUX


def _restricted(pod: dict[str, Any]) -> Iterator[Control]:
    if any(not (volume.keys() - {"name"}) <= _RESTRICTED_VOLUMES for volume in pod.get("volumes", [])):
        yield Control.VOLUME_TYPES
    context = pod.get("securityContext", {})
    for container in _containers(pod):
        own = container.get("securityContext", {})
        effective = {**context, **own}
        if own.get("allowPrivilegeEscalation") is not False:
            yield Control.ESCALATION
        if effective.get("runAsNonRoot") is not True:
            yield Control.NON_ROOT
        if effective.get("seccompProfile", {}).get("type") not in _CONFINED:
            yield Control.SECCOMP
        dropped = own.get("capabilities", {}).get("drop", [])
        if "ALL" not in dropped or not _added(own) <= _RESTRICTED_CAPABILITIES:
            yield Control.CAPABILITIES
        # Neither the pod nor the container may set 0.
        if 0 in (context.get("runAsUser"), own.get("runAsUser")):
            yield Control.NON_ROOT_USER


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [container for kind in _CONTAINERS for container in pod.get(kind, [])]


def _added(context: dict[str, Any]) -> set[str]:
    return set(context.get("capabilities", {}).get("add", []))
