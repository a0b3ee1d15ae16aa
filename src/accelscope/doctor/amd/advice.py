"""What to do, by what went wrong: a sentence or two, with the commands. INDEX stands for the device's."""

from accelscope.doctor.subject import Subject

_KERNEL_LOG = "`dmesg -T | grep -iE 'amdgpu|kfd'`"
MODULE = f"`modprobe amdgpu`; if that fails, {_KERNEL_LOG} says why (no firmware, blacklisted, Secure Boot)."
DRIVER = (
    "Load the kernel's own amdgpu or install AMD's (`amdgpu-install --usecase=dkms`); the GPU Operator does "
    "it on nodes with the label feature.node.kubernetes.io/amd-gpu=true."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`); drain the node and reboot it. Meanwhile the agent keeps what still "
    "answers fresh."
)
TOOL_HANG = (
    f"The tool hangs, mostly because a GPU does: see {_KERNEL_LOG}. The agent reads the driver's files "
    "meanwhile and asks the tool again at the next --tool-interval."
)
TOOL_ADDS = (
    "Names of Radeon products, throttling, links and the version of the VBIOS come from it: install "
    "amd-smi-lib (ROCm), mount the node's /opt/rocm in a pod, or name the tool with --amd-smi-path."
)
_STRANGE = (
    "The tool printed something that is not known: save it with `amd-smi metric --json > metric.txt`, look "
    "at it with `accelscope parse amd-smi-metric metric.txt`, and please report it."
)
_GROUPS = "render and video"
_RESET = "`amd-smi reset --gpureset --gpu INDEX`"

_BY_REASON = {
    "driver_absent": DRIVER,
    "library_absent": (
        "The driver is loaded, but /sys/class/drm shows no GPU of it: in a pod, mount the node's /sys "
        f"read-only and name it with --sys-root; on the node itself, {_KERNEL_LOG} tells why none started."
    ),
    "driver_not_loaded": f"{MODULE} Not installed at all? {DRIVER}",
    "library_missing": (
        "The tool does not find its own library: install amd-smi-lib or rocm-smi-lib whole, name the folder "
        "in LD_LIBRARY_PATH (/opt/rocm/lib), and in a pod mount all of /opt/rocm."
    ),
    "driver_error": f"See {_KERNEL_LOG} and what `amd-smi metric` says.",
    "timeout": HANG,
    "not_ready": "The tool takes long for its answer: wait a minute; `time amd-smi metric` shows how long.",
    "tool_timeout": TOOL_HANG,
    "tool_stuck": TOOL_HANG,
    "deadline": "Other devices used up the time: mend those first, or raise --reader-timeout.",
    "lost": (
        f"The GPU fell off the bus or its reset failed: see {_KERNEL_LOG}, drain the node and reboot it. If "
        "it does not come back, power the machine off and check the card's seat, power and cooling."
    ),
    "not_shown": f"It was there before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"See {_KERNEL_LOG} for GPUs whose start failed (`Fatal error during GPU init`).",
    "no_devices": f"See {_KERNEL_LOG} for GPUs whose start failed (`Fatal error during GPU init`).",
    "unheld": f"Is it too new for this driver, or kept out on purpose? {_KERNEL_LOG} names it.",
    "suspended": (
        "The GPUs are asleep and rocm-smi does not wake them: nothing to mend. `cat "
        "/sys/class/drm/card*/device/power/runtime_status` shows it."
    ),
    "tool_missing": TOOL_ADDS,
    "tool_failed": "The tool itself breaks: are it, its Python package and its library of one ROCm release?",
    "tool_killed": (
        "Out of memory: amd-smi and rocm-smi are Python programs and count in the agent's container, give it "
        "256Mi; `dmesg -T | grep -i oom` shows it."
    ),
    "unrecognized": _STRANGE,
    "truncated": _STRANGE,
    "empty": f"The tool printed nothing: run `amd-smi metric` by hand; see {_KERNEL_LOG}.",
    "tool_output_too_big": "See that the file that --amd-smi-path names is amd-smi.",
    "tool_not_started": "See that the file that --amd-smi-path names is a program of this machine.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a device's health; the first that fits.
_BY_WORD = (
    ("needs replacing", "Drain the node and have the board replaced: `amd-smi bad-pages --gpu INDEX`."),
    ("wait for a reset", f"It works on. When the node is drained: {_RESET}."),
    (
        "uncorrectable errors",
        f"Jobs may have failed: {_KERNEL_LOG} and `amd-smi metric --ecc-blocks --gpu INDEX` name the block. "
        f"Once the node is drained, {_RESET}; if they go on, replace the board.",
    ),
    (
        "links to other GPUs",
        "`amd-smi xgmi` shows which link; drain the node and reboot it, then check the seat of the modules.",
    ),
    ("°C", "Look at fans, air and cooling: `amd-smi metric --temperature --gpu INDEX`."),
    ("slowed down", "Look at fans, air and supply: `amd-smi metric --throttle --power --gpu INDEX`."),
    (
        "answers nothing for now",
        f"Run doctor again in a minute. If it stays so, {_KERNEL_LOG} says whether a reset failed; then "
        "drain the node and reboot it.",
    ),
)
_OTHERWISE = f"See {_KERNEL_LOG} and what `amd-smi metric` prints; please report what doctor did not explain."


def advice(reason: str, subject: Subject) -> str:
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def no_permission(subject: Subject) -> str:
    if subject.in_container:
        return (
            "Mount the node's /sys read-only, without masked paths; for amd-smi give the container /dev/kfd "
            f"and /dev/dri and the groups {_GROUPS} (supplementalGroups with their numbers on the node)."
        )
    return (
        f"Add the agent's user to the groups {_GROUPS} (SupplementaryGroups=render video in the systemd "
        "unit), and see that /sys is not masked (ProtectKernelTunables= is fine, it only forbids writing)."
    )
