"""Sections of the device dashboard: power and temperature, links, errors."""

from tools.monitoring.dashboards.device_series import HERE, of, rate
from tools.monitoring.dashboards.frame import Section
from tools.monitoring.dashboards.panels import Query, lines, states
from tools.monitoring.dashboards.tables import Column, rows
from tools.monitoring.dashboards.vocabulary import UP_DOWN, pcie_rate


def power() -> Section:
    return Section(
        "Power and temperature",
        [
            lines(
                "Power",
                "Current power and the enforced limit.",
                "watt",
                Query(of("accelerator_power_watts"), "power"),
                Query(of("accelerator_power_limit_watts"), "limit"),
                Query(of("accelerator_rail_watts"), "rail {{rail}}"),
                width=8,
            ),
            lines(
                "Temperature",
                "All sensors, and the slowdown and shutdown temperatures.",
                "celsius",
                Query(of("accelerator_sensor_temperature_celsius"), "{{sensor}}"),
                Query(of("accelerator_temperature_slowdown_celsius"), "slowdown"),
                Query(of("accelerator_temperature_shutdown_celsius"), "shutdown"),
                width=8,
            ),
            lines(
                "Fans",
                "Fraction of the maximum speed.",
                "percentunit",
                Query(of("accelerator_fan_speed_ratio"), "fan {{fan}}"),
                width=8,
            ),
            lines(
                "Voltage",
                "Voltage by supply rail.",
                "volt",
                Query(of("accelerator_rail_volts"), "{{rail}}"),
                width=8,
            ),
            lines(
                "Energy by pod",
                "Power attributed to each container, and power that is not attributed to a pod.",
                "watt",
                Query(
                    f"sum by (namespace, pod, container) ({rate('accelerator_pod_energy_joules_total')})",
                    "{{namespace}}/{{pod}} {{container}}",
                ),
                Query(f"sum({rate('accelerator_idle_energy_joules_total')})", "unattributed"),
                stacked=True,
                width=16,
            ),
        ],
    )


def links() -> Section:
    return Section(
        "PCIe and links",
        [
            lines(
                "PCIe traffic",
                "Traffic between device and host.",
                "binBps",
                Query(pcie_rate("transmit", HERE), "to host"),
                Query(pcie_rate("receive", HERE), "from host"),
                width=8,
            ),
            lines(
                "PCIe link",
                (
                    "Current and maximum generation and lanes. A lower generation is normal while the "
                    "device is idle; fewer lanes are not."
                ),
                "short",
                Query(of("accelerator_pcie_generation"), "generation"),
                Query(of("accelerator_pcie_max_generation"), "max generation"),
                Query(of("accelerator_pcie_link_width"), "lanes"),
                Query(of("accelerator_pcie_max_link_width"), "max lanes"),
                width=8,
            ),
            lines(
                "Links to other devices",
                "NVLink, XGMI, HCCS: sum over all links of a kind.",
                "binBps",
                Query(rate("accelerator_link_transmit_bytes_total"), "{{kind}} sent"),
                Query(rate("accelerator_link_receive_bytes_total"), "{{kind}} received"),
                width=8,
            ),
            states(
                "Link state",
                "One lane per link.",
                UP_DOWN,
                Query(of("accelerator_link_up"), "{{kind}} {{link}}"),
            ),
            lines(
                "Link errors",
                "Per hour: PCIe replays, and link errors by kind.",
                "short",
                Query(f"increase({of('accelerator_pcie_replays_total')}[1h])", "PCIe replays"),
                Query(f"increase({of('accelerator_link_errors_total')}[1h])", "{{kind}} {{error}}"),
            ),
        ],
    )


def errors() -> Section:
    return Section(
        "Errors",
        [
            lines(
                "Memory errors",
                "Since the driver was loaded.",
                "short",
                Query(of("accelerator_ecc_errors_total"), "{{severity}}"),
                width=8,
            ),
            lines(
                "Remapped rows and retired pages",
                "Memory rows remapped and pages retired over the lifetime of the board.",
                "short",
                Query(of("accelerator_remapped_rows_total"), "rows, {{severity}}"),
                Query(of("accelerator_retired_pages_total"), "pages, {{severity}}"),
                Query(of("accelerator_row_remap_pending"), "remap pending"),
                Query(of("accelerator_row_remap_failed"), "remap failed"),
                width=8,
            ),
            rows(
                "Errors by code",
                "Errors reported by the driver, with count and time since the last one.",
                {"kind": "Kind", "code": "Code"},
                Column("Count", f"max by (kind, code) ({of('accelerator_errors_total')})", "short"),
                Column(
                    "Time since last",
                    f"time() - max by (kind, code) ({of('accelerator_error_last_seen_timestamp_seconds')})",
                    "s",
                ),
                sort="Count",
                width=8,
            ),
        ],
    )
