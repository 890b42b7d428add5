"""`/qos/rule-types`: which rules policies may have. Reference: network.md, section 10."""

from __future__ import annotations

from attrs import frozen

from cloudctl.errors import NotFound
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.rest.body import INTEGER_MOST
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


def _range(name: str) -> Json:
    return {"parameter_name": name, "parameter_type": "range", "parameter_values": {"start": 0, "end": INTEGER_MOST}}


DIRECTIONS = {"parameter_name": "direction", "parameter_type": "choices", "parameter_values": ["egress", "ingress"]}
# Type → what a rule of it may say.
TYPES = {"bandwidth_limit": [_range("max_kbps"), _range("max_burst_kbps"), DIRECTIONS]}


@frozen
class QosRuleTypes:
    routes = Routes("QoS rules")

    driver_name: str

    @routes.get("/qos/rule-types", policy="network:qos_rule_types:list")
    async def list(self, call: Call) -> Json:
        """List the types of rules that policies may have."""
        unknown = [name[:64] for name in call.query if name not in {"type"} | lists.RESERVED]
        if unknown:
            raise lists.bad(f"{unknown} is invalid attribute for filtering")
        wanted = call.query.all("type")
        return {"rule_types": [{"type": name} for name in TYPES if not wanted or name in wanted]}

    @routes.get("/qos/rule-types/<rule_type>", policy="network:qos_rule_types:show")
    async def show(self, call: Call, rule_type: str) -> Json:
        """Show a type of rules, and the driver that obeys them."""
        if rule_type not in TYPES:
            raise NotFound("The resource could not be found.")
        driver = {"name": self.driver_name, "supported_parameters": TYPES[rule_type]}
        return {"rule_type": lists.narrowed(call, {"type": rule_type, "drivers": [driver]})}
