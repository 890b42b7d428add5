"""What an operator may set for instance high availability: the section `[instance_ha]`."""

from __future__ import annotations

from attrs import field, frozen

from cloudctl.options import not_negative, positive, share


@frozen
class InstanceHaOptions:
    """[instance_ha]"""

    # Whether notifications are acted upon; if false, they are stored and stay new.
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
    # Whether a reserve joins the aggregates, and so the zone, of the host that it replaces.
    add_reserved_host_to_aggregate: bool = False
    # How many servers leave one host at once.
    host_failure_recovery_threads: int = field(default=3, validator=positive)
    # Seconds within which a second notification that says the same is refused.
    duplicate_notification_detection_interval: float = field(default=180.0, validator=not_negative)
    # Seconds until a failed recovery is tried again, and how often it is.
    process_unfinished_notifications_interval: float = field(default=120.0, validator=positive)
    retries: int = field(default=1, validator=not_negative)
    # Seconds after which a new notification that nobody has picked up is picked up.
    retry_notification_new_status_interval: float = field(default=60.0, validator=positive)
    # Seconds after which a notification is abandoned, whatever it waits for.
    notifications_expired_interval: float = field(default=86400.0, validator=positive)
    # Seconds between two attempts to prove that a host is fenced, and between two looks at one that may be alive.
    fencing_interval: float = field(default=15.0, validator=positive)
    unknown_interval: float = field(default=30.0, validator=positive)
    # Seconds of silence after which a host of unknown status is taken for dead, and fenced.
    unknown_silence: float = field(default=60.0, validator=not_negative)
    # Whether hosts are watched, beside external monitors.
    watch_hosts: bool = True
    # What share of all hosts, and of a segment's, is believed to be dead: as parts of 1, but at least 2 hosts.
    # More within `cliff_window` seconds, and more fences an hour, wait for an operator.
    cliff_share: float = field(default=0.3, validator=share)
    cliff_window: float = field(default=60.0, validator=positive)
    segment_share: float = field(default=0.5, validator=share)
    fences_per_hour: int = field(default=20, validator=positive)
    # Seconds within which a server must have stopped, and within which it must be active.
    wait_period_after_power_off: float = field(default=180.0, validator=positive)
    wait_period_after_power_on: float = field(default=60.0, validator=positive)
    # Whether webhooks of alerting tools are accepted as notifications.
    accept_alertmanager: bool = True
