"""Indexes by which lists of networking find what filters ask for, so that no page goes through the whole table."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

# Those whose rows were not in the order of a page.
REPLACED = {
    "ix_ports_qos_policy_id": "ports",
    "ix_floating_ips_floating_network_id": "floating_ips",
    "ix_floating_ips_router_id": "floating_ips",
}
MADE = {
    "ports": {
        "all_status": ["status"],
        "all_device_owner": ["device_owner"],
        "all_network": ["network_id"],
        "qos_policy": ["qos_policy_id", "project_id"],
    },
    "networks": {
        "name": ["name", "project_id"],
        "status": ["project_id", "status"],
        "all_status": ["status"],
        "segmentation": ["segmentation_id"],
        "physical": ["physical_network"],
    },
    "subnets": {"name": ["name", "project_id"], "cidr": ["cidr", "project_id"], "all_cidr": ["cidr"]},
    "routers": {"name": ["name", "project_id"], "status": ["project_id", "status"], "all_status": ["status"]},
    "floating_ips": {
        "status": ["project_id", "status"],
        "all_status": ["status"],
        "network": ["floating_network_id", "project_id"],
        "all_network": ["floating_network_id"],
        "router": ["router_id", "project_id"],
    },
    "security_groups": {"name": ["name", "project_id"], "all_name": ["name"]},
    "security_group_rules": {"group": ["security_group_id", "project_id"]},
}
# Of the rows alone whose flag has a value that few have: table, name → flag, value, columns before it
OF_FEW = {
    ("ports", "down"): ("admin_state_up", False, ["project_id"]),
    ("ports", "all_down"): ("admin_state_up", False, []),
    ("ports", "unfiltered"): ("port_security_enabled", False, ["project_id"]),
    ("ports", "all_unfiltered"): ("port_security_enabled", False, []),
    ("networks", "external"): ("external", True, []),
    ("networks", "down"): ("admin_state_up", False, []),
    ("subnets", "silent"): ("enable_dhcp", False, []),
    ("routers", "down"): ("admin_state_up", False, []),
    ("security_groups", "stateless"): ("stateful", False, []),
}


def upgrade() -> None:
    for name, table in REPLACED.items():
        op.drop_index(name, table)
    for table, indexes in MADE.items():
        for name, columns in indexes.items():
            op.create_index(f"ix_{table}_{name}", table, [*columns, "id"])
    for (table, name), (flag, rare, before) in OF_FEW.items():
        op.create_index(
            f"ix_{table}_{name}",
            table,
            [*before, flag, "id"],
            sqlite_where=sa.text(f"{flag} IS {int(rare)}"),
            postgresql_where=sa.text(f"{flag} IS {str(rare).lower()}"),
        )
