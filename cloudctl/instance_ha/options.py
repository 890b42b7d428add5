"""What an operator may set for instance high availability: the section `[instance_ha]`."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen


def positive(_instance: object, _attribute: Any, value: float) -> None:
    if value <= 0:
        raise ValueError("must be greater than 0")


def not_negative(_instance: object, _attribute: Any, value: float) -> None:
    if value < 0:
        raise ValueError("must not be negative")


@frozen
class InstanceHaOptions:
    """[instance_ha]"""

    # Whether notifications are acted upon; false: they are stored, and stay new.
    engine_enabled: bool = True
    # What is done, in this order, when a host, an instance or a process is broken.
    host_tasks: list[str] = field(
        factory=lambda: [
            "disable_compute_service",
            "fence_host",
            "prepare_HA_enabled_instances",
            "evacuate_instances",
        ]
    )
    instance_tasks: list[str] = field(
        factory=lambda: ["stop_instance", "start_instance", "move_instance", "confirm_instance_active"],
    )
    process_tasks: list[str] = field(factory=lambda: ["disable_compute_node", "confirm_compute_node_disabled"])
    # Whether servers without `HA_Enabled` in their metadata are recovered, too: from a dead host, and by themselves.
    evacuate_all_instances: bool = True
    process_all_instances: bool = False
    # Servers in ERROR stay where they are.
    ignore_instances_in_error_state: bool = False
    # Whether a reserve joins the aggregates of the host in whose place it comes, and so its zone.
    add_reserved_host_to_aggregate: bool = False
    # Servers that leave one host at once.
    host_failure_recovery_threads: int = field(default=3, validator=positive)
    # Seconds in which a second notification that says the same is refused.
    duplicate_notification_detection_interval: float = field(default=180.0, validator=not_negative)
    # Seconds until what could not be done is tried again, and how often that is.
    process_unfinished_notifications_interval: float = field(default=120.0, validator=positive)
    retries: int = field(default=1, validator=not_negative)
    # Seconds until notifications that nobody has picked up are looked for.
    retry_notification_new_status_interval: float = field(default=60.0, validator=positive)
    # Seconds after which a notification is given up, whatever it waits for.
    notifications_expired_interval: float = field(default=86400.0, validator=positive)
    # Seconds between two attempts to prove that a host is fenced, and two looks at one that may be alive.
    fencing_interval: float = field(default=15.0, validator=positive)
    unknown_interval: float = field(default=30.0, validator=positive)
    # Seconds of silence after which a host of unknown status is taken for dead, and fenced.
    unknown_silence: float = field(default=60.0, validator=not_negative)
    # Whether hosts are watched, beside external monitors.
    watch_hosts: bool = True
    # Of how many hosts, and of how many of a segment, it is believed that they are dead: as parts of 1, but at least 2.
    # More within `cliff_window` seconds, and more fences an hour, wait for an operator.
    cliff_share: float = field(default=0.3, validator=not_negative)
    cliff_window: float = field(default=60.0, validator=positive)
    segment_share: float = field(default=0.5, validator=not_negative)
    fences_per_hour: int = field(default=20, validator=positive)
    # Seconds until a server must have stopped, and be active.
    wait_period_after_power_off: float = field(default=180.0, validator=positive)
    wait_period_after_power_on: float = field(default=60.0, validator=positive)
    # Whether the webhooks of alerting tools are taken as notifications.
    accept_alertmanager: bool = True
