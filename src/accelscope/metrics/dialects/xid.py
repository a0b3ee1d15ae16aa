"""Short texts for XID codes, for the label that dcgm-exporter has beside the code. Our words; the codes that
operators meet."""

_TEXTS = {
    8: "GPU stopped processing",
    13: "Graphics engine exception",
    31: "GPU memory page fault",
    32: "Corrupted push buffer stream",
    38: "Driver firmware error",
    43: "GPU stopped processing",
    44: "Graphics engine fault during context switch",
    45: "Clean-up after earlier errors",
    48: "Double-bit ECC error",
    61: "Microcontroller breakpoint or warning",
    62: "Microcontroller halt",
    63: "Page retirement or row remapping recorded",
    64: "Page retirement or row remapping failed",
    68: "Video decoder exception",
    69: "Graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "High rate of single-bit ECC errors",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    109: "Context switch timeout",
    119: "GSP RPC timeout",
    120: "GSP error",
    121: "C2C link error",
    122: "SPI read failure",
    123: "SPI write failure",
    136: "Link training failure",
    137: "NVLink privilege error",
    140: "Unrecovered ECC error",
    143: "GPU initialisation failure",
    145: "NVLink RLW error",
    149: "NVLink NETIR error",
    154: "Recovery action changed",
    156: "Resource retired",
    157: "Resource retirement failed",
    158: "GPU fatal timeout",
    171: "Uncorrectable DRAM error",
    172: "Uncorrectable SRAM error",
}


def xid_text(code: int) -> str:
    return _TEXTS.get(code, "Unknown Error")
