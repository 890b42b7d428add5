"""What Pacemaker's `cibadmin --query` prints, as far as masakari's monitor of hosts reads it. FILE: lines «NAME STATE».

Each has a controller that `external/ipmi` fences it by.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

nodes = [line.split() for line in Path(sys.argv[1]).read_text().splitlines()]
cib = Element("cib", {"have-quorum": "1"})
resources = SubElement(SubElement(cib, "configuration"), "resources")
status = SubElement(cib, "status")
for name, state in nodes:
    group = SubElement(resources, "group", id=f"stonith-{name}")
    agent = {"id": f"ipmi-{name}", "class": "stonith", "type": "external/ipmi"}
    attributes = SubElement(SubElement(group, "primitive", agent), "instance_attributes", id=f"of-{name}")
    said = {"hostname": name, "ipaddr": f"bmc-of-{name}", "userid": "admin", "passwd": "x", "interface": "lanplus"}
    for key, value in said.items():
        SubElement(attributes, "nvpair", id=f"{name}-{key}", name=key, value=value)
    SubElement(status, "node_state", id=name, uname=name, crmd=state)
print(tostring(cib, encoding="unicode"))
