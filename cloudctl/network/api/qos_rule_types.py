"""`/qos/rule-types`: which rules policies may have. Reference: network.md, section 10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from cloudctl.errors import Invalid, NotFound
from cloudctl.network.api import lists
from cloudctl.network.api.attributes import Json
from cloudctl.network.api.qos_rules import MARKS, RULES, DeclaredRule
from cloudctl.rest.body import INTEGER_MOST
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes


def _range(name: str) -> Json:
    return {"parameter_name": name, "parameter_type": "range", "parameter_values": {"start": 0, "end": INTEGER_MOST}}


def _choices(name: str, values: Sequence[Any]) -> Json:
    return {"parameter_name": name, "parameter_type": "choices", "parameter_values": list(values)}


def parameters(declared: DeclaredRule) -> list[Json]:
    """The parameters that a rule of a type may have."""
    of: dict[str, Json] = {
        "direction": _choices("direction", declared.type.directions),
        "dscp_mark": _choices("dscp_mark", MARKS),
    }
    return [of.get(each.name) or _range(each.name) for each in declared.attributes if each.put]


# Types that the driver obeys (those listed by default), or all types.
WHICH = ("all_supported", "all_rules")


@frozen
class QosRuleTypes:
    routes = Routes("QoS rules")

    driver_name: str
    types: Sequence[DeclaredRule]  # that the driver obeys

    @routes.get("/qos/rule-types", policy="network:qos_rule_types:list")
    async def list(self, call: Call) -> Json:
        """List the types of rules that policies may have."""
        unknown = [name[:64] for name in call.query if name not in {"type", *WHICH} | lists.RESERVED]
        if unknown:
            raise lists.bad(f"{unknown} is invalid attribute for filtering")
        wanted = call.query.all("type")
        if all(call.query.flag(name) for name in WHICH):
            raise Invalid("Only one attribute can be specified: 'all_supported' or 'all_rules'.", type="InvalidInput")
        names = [*RULES] if call.query.flag("all_rules") else [each.type.name for each in self.types]
        return {"rule_types": [{"type": name} for name in names if not wanted or name in wanted]}

    @routes.get("/qos/rule-types/<rule_type>", policy="network:qos_rule_types:show")
    async def show(self, call: Call, rule_type: str) -> Json:
        """Show a type of rules, and the driver that obeys them."""
        found = next((each for each in self.types if each.type.name == rule_type), None)
        if found is None:
            raise NotFound("The resource could not be found.")
        driver = {"name": self.driver_name, "supported_parameters": parameters(found)}
        return {"rule_type": lists.narrowed(call, {"type": rule_type, "drivers": [driver]})}
