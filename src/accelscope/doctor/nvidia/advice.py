"""What to do, by what went wrong: a sentence or two, with the commands. INDEX stands for the device's."""

from accelscope.doctor.subject import Subject

_KERNEL_LOG = "`dmesg -T | grep -iE 'nvrm|xid'`"
_RESET = "`nvidia-smi --gpu-reset -i INDEX`"
_CONTAINER = (
    "Give the pod runtimeClassName: nvidia and the environment NVIDIA_VISIBLE_DEVICES=all and "
    "NVIDIA_DRIVER_CAPABILITIES=utility"
)
MODULE = f"`modprobe nvidia`; if that fails, {_KERNEL_LOG} says why (no module for this kernel, Secure Boot)."
DRIVER = (
    "Install NVIDIA's driver on the node, or let the GPU Operator do it: see that the node has the label "
    "feature.node.kubernetes.io/pci-10de.present=true and not nvidia.com/gpu.deploy.driver=false."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`); drain the node and reboot it. Meanwhile the agent keeps what still "
    "answers fresh."
)
DEVICE_RULES = "The unit's device rules forbid it: `DeviceAllow=char-195 rw` in the systemd unit."
_FAILED_TO_START = (
    f"See {_KERNEL_LOG} for GPUs that failed to start (RmInitAdapter) or are lost; in a container"
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_not_loaded": (f"{MODULE} If this node has no GPU, take it out of the DaemonSet (nodeSelector)."),
    "version_mismatch": (
        "The driver's files were upgraded under a running module: reboot the node, or stop all that uses the "
        "GPUs, then `rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia` and `modprobe nvidia`. Restart "
        "containers that use the GPUs, the agent's too, so that they get the node's new library."
    ),
    "library_unusable": (
        "Is it whole, and of this machine's architecture and C library? Reinstall the driver's library; an "
        "image with musl (Alpine) cannot load it."
    ),
    "binding_missing": "`pip install nvidia-ml-py` into the Python that runs accelscope.",
    "driver_reloaded": "The driver was reloaded while it was asked: run doctor again.",
    "driver_error": (
        "In a container this is what remains after `systemctl daemon-reload` on the node, which takes the "
        f"device files away: delete the pod so that it is made anew. Otherwise see {_KERNEL_LOG}."
    ),
    "timeout": HANG,
    "tool_timeout": HANG,
    "tool_stuck": HANG,
    "deadline": "Other devices used up the time: mend those first, or raise --reader-timeout.",
    "lost": (
        f"The GPU fell off the bus: see {_KERNEL_LOG} for XID 79, drain the node and reboot it. If it does "
        "not come back, power the machine off, reseat the card, and check its power cable and cooling."
    ),
    "reset_required": (f"Stop what runs on it, then {_RESET}; reboot the node if that is refused."),
    "not_shown": f"It was there before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"{_FAILED_TO_START}, see that NVIDIA_VISIBLE_DEVICES is all.",
    "no_devices": f"{_FAILED_TO_START}, see that NVIDIA_VISIBLE_DEVICES is all.",
    "unheld": f"Is it too old or too new for this driver, or kept out on purpose? {_KERNEL_LOG} names it.",
    "insufficient_power": "The card's power cables are not connected, or not all of them.",
    "library_missing": "nvidia-smi itself does not find libnvidia-ml.so.1: install the driver's library.",
    "tool_missing": "Name the tool with --nvidia-smi-path.",
    "tool_killed": (
        f"Out of memory (`dmesg -T | grep -i oom`; raise the container's limit), or a crash: {_KERNEL_LOG}."
    ),
    "tool_not_started": "See that the file that --nvidia-smi-path names is a program of this machine.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a device's health; the first that fits.
_BY_WORD = (
    ("replacing", "Drain the node, and have the board replaced: `nvidia-smi -q -i INDEX -d ROW_REMAPPER`."),
    (
        "slowed down",
        "`nvidia-smi -q -i INDEX -d PERFORMANCE,TEMPERATURE,POWER`: look at fans, air and supply.",
    ),
    (
        "to be remapped",
        f"It works on. When the node is drained: {_RESET}, which puts spare rows in their place.",
    ),
    (
        "uncorrected",
        f"Jobs may have failed. Once the node is drained, {_RESET}; if they go on, replace the board.",
    ),
    ("XID", f"{_KERNEL_LOG} has it with its process; NVIDIA's list of XIDs says what each number means."),
    ("questions with an error", f"See {_KERNEL_LOG}; drain the GPU, then {_RESET}, or reboot the node."),
    (
        "IMEX",
        "End the jobs of its NVLink domain, then restart nvidia-imex on the domain's nodes: "
        "`nvidia-imex-ctl -N` shows them, `systemctl restart nvidia-imex`.",
    ),
    ("reboot", "Drain the node and reboot it."),
    ("drain peer-to-peer", "Let the jobs that use NVLink between GPUs end, then run doctor again."),
    ("reset of the bus", "Drain the node and reboot it."),
    ("reset", f"Drain the GPU, then {_RESET}; reboot the node if that is refused."),
)
_OTHERWISE = f"See {_KERNEL_LOG} and what `nvidia-smi` prints; please report what doctor did not explain."


def advice(reason: str, subject: Subject) -> str:
    if reason == "library_absent":
        return library_absent(subject)
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def library_absent(subject: Subject) -> str:
    if subject.in_container:
        return (
            f"{_CONTAINER}; or mount the driver's root /run/nvidia/driver (GPU Operator) and name the "
            "library in it with --nvml-library."
        )
    return (
        "Install the driver's library (Debian libnvidia-ml1, Ubuntu libnvidia-compute, Red Hat "
        "nvidia-driver-libs), or name it with --nvml-library."
    )


def no_permission(subject: Subject, group: str | None = None, gid: int | None = None) -> str:
    """`group` and `gid` are those of a device file, where one is the obstacle."""
    if subject.in_container:
        way = f"supplementalGroups: [{gid}] in the pod's securityContext" if gid else "run the agent as root"
        return f"{_CONTAINER}; if the device files are there but closed to this user, {way}."
    return (
        f"Add the agent's user to the group {group or 'of the device files'} "
        f"(SupplementaryGroups={group or 'GROUP'} in the systemd unit, with DeviceAllow=char-195 rw)."
    )


def device_files_missing(subject: Subject) -> str:
    if subject.in_container:
        return f"{_CONTAINER}."
    return "Run `nvidia-smi` once as root, or enable nvidia-persistenced: they make the device files."
