"""One of each resource of the networking API, for tests that ask every Operation: variable of a path → its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# Of what only a longer story makes.
UNKNOWN = "2f32f072-4d17-4811-b619-3623d018bd40"
Make = Callable[[str, str, dict[str, Any]], str]


def samples(make: Make, ids: Mapping[str, str], project: str) -> dict[str, str]:
    """What there is beside networks, ports and routers, which `ids` has.

    `make(path, key, body)` creates as an administrator and gives the id; they belong to `project`.
    """
    own = {"project_id": project}
    share = {"object_type": "network", "object_id": ids["network_id"], "action": "access_as_shared"}
    parent = make("/ports", "port", {**own, "network_id": ids["network_id"]})
    rules = f"/qos/policies/{ids['policy_id']}"
    label = make("/metering/metering-labels", "metering_label", own)
    counted = {"metering_label_id": label, "direction": "ingress", "remote_ip_prefix": "10.0.0.0/8"}
    followed = {"protocol": "tcp", "port": 21, "helper": "ftp"}
    helpers = f"/routers/{ids['router_id']}/conntrack_helpers"
    numbers = {"network_type": "vxlan", "minimum": 7, "maximum": 9}
    local = {**own, "network_id": ids["network_id"]}
    template = {"direction": "ingress", "protocol": "tcp", "used_in_non_default_sg": False}
    return {
        "template_id": make("/default-security-group-rules", "default_security_group_rule", template),
        "bandwidth_limit_id": make(f"{rules}/bandwidth_limit_rules", "bandwidth_limit_rule", {"max_kbps": 1000}),
        "dscp_marking_id": make(f"{rules}/dscp_marking_rules", "dscp_marking_rule", {"dscp_mark": 8}),
        "minimum_bandwidth_id": make(f"{rules}/minimum_bandwidth_rules", "minimum_bandwidth_rule", {"min_kbps": 1}),
        "packet_rate_limit_id": make(f"{rules}/packet_rate_limit_rules", "packet_rate_limit_rule", {"max_kpps": 9}),
        "minimum_packet_rate_id": make(
            f"{rules}/minimum_packet_rate_rules", "minimum_packet_rate_rule", {"min_kpps": 1}
        ),
        "metering_label_id": label,
        "metering_label_rule_id": make("/metering/metering-label-rules", "metering_label_rule", counted),
        "log_id": make("/log/logs", "log", {**own, "resource_type": "security_group"}),
        "flavor_id": make("/flavors", "flavor", {"service_type": "L3_ROUTER_NAT"}),
        "service_profile_id": make("/service_profiles", "service_profile", {"metainfo": "m"}),
        "conntrack_helper_id": make(helpers, "conntrack_helper", followed),
        "network_segment_range_id": make("/network_segment_ranges", "network_segment_range", numbers),
        "local_ip_id": make("/local_ips", "local_ip", local),
        **dict.fromkeys(("ndp_proxy_id", "segment_id", "fixed_port_id", "host"), UNKNOWN),
        "trunk_id": make("/trunks", "trunk", {**own, "port_id": parent}),
        "address_scope_id": make("/address-scopes", "address_scope", {**own, "ip_version": 4}),
        "subnetpool_id": make("/subnetpools", "subnetpool", {**own, "name": "p", "prefixes": ["10.200.0.0/16"]}),
        "address_group_id": make("/address-groups", "address_group", {**own, "addresses": ["192.0.2.1/32"]}),
        "rbac_policy_id": make("/rbac-policies", "rbac_policy", {**share, **own, "target_tenant": "somebody"}),
    }
