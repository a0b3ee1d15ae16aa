"""What to do, by what went wrong: a sentence or two, with the commands. INDEX stands for the card's."""

from accelscope.doctor.subject import Subject

_KERNEL_LOG = "`dmesg -T | grep -iE 'npu|rngd|furiosa'`"
DRIVER = (
    "Install the vendor's driver on the node (furiosa-driver-rngd or furiosa-driver-warboy) and load it; if "
    f"that fails, {_KERNEL_LOG} says why (no module for this kernel, Secure Boot)."
)
HANG = (
    f"The driver hangs in the kernel: see {_KERNEL_LOG} and processes in state D "
    "(`ps axo pid,stat,wchan,comm`); drain the node and reboot it. Meanwhile the agent keeps what still "
    "answers fresh."
)
LIBRARY = (
    "The tool does not find its own library: install it (furiosa-libsmi), or, in a container, mount the "
    "node's library beside the tool and name its folder in LD_LIBRARY_PATH."
)
TOOL_HANG = (
    f"The tool hangs, mostly because a card does: see {_KERNEL_LOG}. The agent goes on without it and tries "
    "again once a minute; processes are absent until it answers, and with older drivers memory and "
    "utilisation by core of RNGD."
)

_BY_REASON = {
    "driver_absent": DRIVER,
    "driver_not_loaded": DRIVER,
    "library_missing": LIBRARY,
    "library_absent": (
        "The driver is loaded, but /sys does not show its classes here: in a pod, mount the node's /sys "
        "read-only and name it with --sys-root."
    ),
    "version_mismatch": (
        "The tool is of another release than the driver: install furiosa-smi of the same release, and reboot "
        "after an upgrade of the driver."
    ),
    "driver_error": f"See {_KERNEL_LOG}, and what `furiosa-smi status` says.",
    "timeout": HANG,
    "tool_timeout": TOOL_HANG,
    "tool_stuck": TOOL_HANG,
    "deadline": "Other cards used up the time: mend those first, or raise --reader-timeout.",
    "lost": (
        f"The card is not on the bus any more: see {_KERNEL_LOG}, drain the node and reboot it. If it does "
        "not come back, power the machine off, reseat the card, and check its power cable and cooling."
    ),
    "not_shown": (
        "It was there before. Drained with `furiosa-smi drain`? (`furiosa-smi drain list`) Otherwise see "
        f"{_KERNEL_LOG}."
    ),
    "missing": (
        "Drained with `furiosa-smi drain`? (`furiosa-smi drain list`, `furiosa-smi drain unset`) Otherwise "
        f"see {_KERNEL_LOG} for a card that failed to start."
    ),
    "unheld": f"{DRIVER} A drained card is held by no driver either (`furiosa-smi drain list`).",
    "no_devices": f"See {_KERNEL_LOG} for cards that failed to start, and `lspci -d 1ed2:`.",
    "tool_missing": "Install furiosa-smi (or furiosactl for Warboy), or name it with --furiosa-smi-path.",
    "tool_killed": "Out of memory (`dmesg -T | grep -i oom`; raise the container's limit), or a crash.",
    "tool_not_started": "See that the file that --furiosa-smi-path names is a program of this machine.",
    "internal": "This is a fault in AccelScope: please report it, with the log of `accelscope agent`.",
}
# By a word of what the reader says of a card's health; the first that fits.
_BY_WORD = (
    (
        "not alive",
        f"The card's firmware does not answer: see {_KERNEL_LOG}; drain the card, then reset it or reboot "
        "the node.",
    ),
    (
        "in the last ten minutes",
        f"{_KERNEL_LOG} has what the driver said then; errors that go on speak for the card's slot or the "
        "card itself.",
    ),
    ("slowed down", "Look at fans, air and power supply; `furiosa-smi info` shows temperature and power."),
    (
        "says whether the card is alive",
        "The driver's file for it is missing: is it a version that the card needs? `furiosa-smi status` "
        "tells it where that tool is installed.",
    ),
)
_OTHERWISE = (
    f"See {_KERNEL_LOG} and what `furiosa-smi info` prints; please report what doctor did not explain."
)


def advice(reason: str, subject: Subject) -> str:
    if reason == "no_permission":
        return no_permission(subject)
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    return next((todo for word, todo in _BY_WORD if word in reason), _OTHERWISE)


def no_permission(subject: Subject) -> str:
    if subject.in_container:
        return (
            "Mount the node's /sys read-only, without masked paths, and run the agent as a user who may read "
            "it; furiosa-smi ps needs the node's process ids (hostPID: true) and root."
        )
    return "Run the agent as root, or let its user read the driver's files in /sys (a udev rule)."
