"""What to do, by what went wrong: a sentence or two, with the commands. NPU and CHIP stand for the ids that
npu-smi shows."""

from accelscope.doctor.subject import Subject

_KERNEL_LOG = "`dmesg -T | grep -iE 'davinci|devdrv|ascend'`"
_HEALTH = "`npu-smi info -t health -i NPU -c CHIP` names the error codes"
_RESET = "`npu-smi set -t reset -i NPU -c CHIP`"
_MOUNTS = (
    "Run the container privileged and mount /usr/local/Ascend/driver, /usr/local/sbin/npu-smi (or "
    "/usr/local/bin/npu-smi) and /usr/local/dcmi from the node"
)
DRIVER = (
    "Install Ascend's driver and firmware packages on the node (Ascend-hdk-…-npu-driver_….run --full), then "
    "reboot it."
)
MODULE = f"See {_KERNEL_LOG}: after an upgrade of kernel or firmware the driver must be installed anew."
HANG = (
    f"The driver hangs: see {_KERNEL_LOG} and processes in state D (`ps axo pid,stat,wchan,comm`); drain the "
    "node and reboot it."
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_in_use": (
        "The NPUs are bound to another container, or a second monitor (npu-exporter) asks at the same time, "
        "or /usr/local/dcmi is not mounted: run the agent privileged, and only one monitor."
    ),
    "upgrading": "The driver is being upgraded: wait, then reboot the node if it asks for that.",
    "not_ready": "The chips are starting: wait a minute and run doctor again.",
    "driver_timeout": HANG,
    "query_failed": f"npu-smi could not ask a chip: {_HEALTH}; see {_KERNEL_LOG}.",
    "other_tool": (
        "This npu-smi is another vendor's program. Name Ascend's with --npu-smi-path, or leave ascend out of "
        "--readers."
    ),
    "unrecognized": (
        "npu-smi printed something that is not known: save it with `npu-smi info > npu-smi.txt`, look at it "
        "with `accelscope parse npu-smi-info npu-smi.txt`, and please report it."
    ),
    "empty": f"npu-smi printed nothing: run it by hand; see {_KERNEL_LOG}.",
    "incomplete": "npu-smi's table was damaged on the way: run doctor again; report it if it stays, please.",
    "timeout": HANG,
    "tool_timeout": HANG,
    "tool_stuck": HANG,
    "deadline": "Other chips used up the time: mend those first, or raise --reader-timeout.",
    "lost": f"The chip is gone: see {_KERNEL_LOG}; drain the node and reboot it, then reseat the card.",
    "not_shown": f"It was there before: see {_KERNEL_LOG}. If it does not come back, reboot the node.",
    "missing": f"npu-smi does not show it: see {_KERNEL_LOG}. In a container: {_MOUNTS}.",
    "no_devices": f"See {_KERNEL_LOG} for chips that failed to start. In a container: {_MOUNTS}.",
    "unheld": f"The driver did not take it: {_KERNEL_LOG} says why; is the driver of this card's generation?",
    "tool_killed": (
        f"Out of memory (`dmesg -T | grep -i oom`; raise the container's limit), or a crash: {_KERNEL_LOG}."
    ),
    "tool_not_started": "See that the file that --npu-smi-path names is a program of this machine.",
    "tool_output_too_big": "See that the file that --npu-smi-path names is npu-smi.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a chip's health; the first that fits.
_BY_WORD = (
    ("Critical", f"{_HEALTH}. Drain the node, then {_RESET}; if it comes back, have the board replaced."),
    ("Alarm", f"{_HEALTH}. Stop what runs on it, then {_RESET}; if it comes back, replace the board."),
    ("Warning", f"{_HEALTH}; it works on. Look at temperature, power and links."),
    ("the driver", f"{_HEALTH}; see {_KERNEL_LOG}."),
)
_OTHERWISE = f"See {_KERNEL_LOG} and what `npu-smi info` prints; please report what doctor did not explain."


def advice(reason: str, subject: Subject) -> str:
    if reason in ("library_absent", "tool_missing"):
        return tool_missing(subject)
    if reason == "library_missing":
        return library_missing(subject)
    if reason in ("no_permission", "driver_error"):
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def tool_missing(subject: Subject) -> str:
    if subject.in_container:
        return f"{_MOUNTS}; or name the tool with --npu-smi-path."
    return "Name the tool with --npu-smi-path: it is in /usr/local/bin or /usr/local/sbin of the driver."


def library_missing(subject: Subject) -> str:
    name = f"Name the driver's folder with --ascend-driver-root (now {subject.settings.ascend_driver_root})"
    if subject.in_container:
        return f"{_MOUNTS}. If the driver is elsewhere: {name}."
    return f"{name}: npu-smi's libraries are in its lib64. {DRIVER}"


def no_permission(subject: Subject) -> str:
    """Also for an internal error of the driver (-8005), which has the same causes as a rule."""
    if subject.in_container:
        return f"{_MOUNTS}. If that is so already, the driver was upgraded: reboot the node."
    if subject.user.is_root:
        return f"The driver was upgraded or is not loaded: reboot the node. {MODULE}"
    return (
        "Run the agent as root, or add its user to the group that owns /dev/davinci_manager (HwHiAiUser; "
        "SupplementaryGroups=HwHiAiUser in the systemd unit). If that is so already, reboot the node."
    )


def device_files_missing(subject: Subject) -> str:
    return f"{_MOUNTS}." if subject.in_container else MODULE
