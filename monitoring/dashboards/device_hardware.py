"""A device as hardware: power and heat, links, errors."""

from monitoring.dashboards.device_series import HERE, of, rate
from monitoring.dashboards.frame import Section
from monitoring.dashboards.panels import Query, lines, states
from monitoring.dashboards.tables import Column, rows
from monitoring.dashboards.vocabulary import UP_DOWN, pcie_rate


def power() -> Section:
    return Section(
        "Power and heat",
        [
            lines(
                "Power",
                "Drawn, and the limit that is enforced.",
                "watt",
                Query(of("accelerator_power_watts"), "drawn"),
                Query(of("accelerator_power_limit_watts"), "limit"),
                Query(of("accelerator_rail_watts"), "rail {{rail}}"),
                width=8,
            ),
            lines(
                "Temperature",
                "At every sensor, and where the device slows down or shuts down by itself.",
                "celsius",
                Query(of("accelerator_sensor_temperature_celsius"), "{{sensor}}"),
                Query(of("accelerator_temperature_slowdown_celsius"), "slows down"),
                Query(of("accelerator_temperature_shutdown_celsius"), "shuts down"),
                width=8,
            ),
            lines(
                "Fans",
                "As a share of the fastest that they are meant to turn.",
                "percentunit",
                Query(of("accelerator_fan_speed_ratio"), "fan {{fan}}"),
                width=8,
            ),
            lines(
                "Voltage",
                "Of supply rails.",
                "volt",
                Query(of("accelerator_rail_volts"), "{{rail}}"),
                width=8,
            ),
            lines(
                "Energy by pod",
                "Power that each container's use accounts for, and what no pod's use does.",
                "watt",
                Query(
                    f"sum by (namespace, pod, container) ({rate('accelerator_pod_energy_joules_total')})",
                    "{{namespace}}/{{pod}} {{container}}",
                ),
                Query(f"sum({rate('accelerator_idle_energy_joules_total')})", "no pod's use"),
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
                "Between device and host.",
                "binBps",
                Query(pcie_rate("transmit", HERE), "to host"),
                Query(pcie_rate("receive", HERE), "from host"),
                width=8,
            ),
            lines(
                "PCIe link",
                (
                    "Generation and lanes, now and at best. A generation below the best is "
                    "usual while idle; lanes are not."
                ),
                "short",
                Query(of("accelerator_pcie_generation"), "generation"),
                Query(of("accelerator_pcie_max_generation"), "generation at best"),
                Query(of("accelerator_pcie_link_width"), "lanes"),
                Query(of("accelerator_pcie_max_link_width"), "lanes at best"),
                width=8,
            ),
            lines(
                "Links to other devices",
                "NVLink, XGMI, HCCS: all links of a kind together.",
                "binBps",
                Query(rate("accelerator_link_transmit_bytes_total"), "{{kind}} sent"),
                Query(rate("accelerator_link_receive_bytes_total"), "{{kind}} received"),
                width=8,
            ),
            states(
                "Which links are up",
                "A lane for each.",
                UP_DOWN,
                Query(of("accelerator_link_up"), "{{kind}} {{link}}"),
            ),
            lines(
                "Errors on links",
                "In an hour: PCIe packets sent again, errors of links by what went wrong.",
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
                "Rows and pages out of use",
                "Memory that was replaced by spare rows, or retired, over the life of the board.",
                "short",
                Query(of("accelerator_remapped_rows_total"), "rows, {{severity}}"),
                Query(of("accelerator_retired_pages_total"), "pages, {{severity}}"),
                Query(of("accelerator_row_remap_pending"), "waits for a reset"),
                Query(of("accelerator_row_remap_failed"), "failed"),
                width=8,
            ),
            rows(
                "Errors by code",
                "What the driver reported, how often, and how long ago it last did.",
                {"kind": "Kind", "code": "Code"},
                Column("Count", f"max by (kind, code) ({of('accelerator_errors_total')})", "short"),
                Column(
                    "Ago",
                    f"time() - max by (kind, code) ({of('accelerator_error_last_seen_timestamp_seconds')})",
                    "s",
                ),
                sort="Count",
                width=8,
            ),
        ],
    )
