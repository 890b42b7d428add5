"""/domains/{id}/config: configuration of individual domains. Reference: identity.md, section 4.

The group security_compliance is not a domain's own: it shows the cloud's rules for passwords, to every user.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import NotFound
from cloudctl.identity import domain_config as domain
from cloudctl.identity import domains
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.payload import Keys
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

CONFIG = Body(dict[str, Any], key="config")


@frozen
class DomainConfig:
    db: Database
    keys: Keys
    rules: PasswordOptions

    routes = Routes("Domain configuration")

    # -- defaults

    @routes.get("/domains/config/default", policy="identity:get_domain_config_default")
    async def defaults(self, call: Call) -> dict[str, Any]:
        """Show the default of every option"""
        return {"config": domain.DEFAULTS}

    @routes.get("/domains/config/<group>/default", policy="identity:get_domain_config_default")
    async def default_group(self, call: Call, group: str) -> dict[str, Any]:
        """Show the defaults of a group"""
        domain.check_names(group)
        return {"config": domain.part(domain.DEFAULTS, group, "", "")}

    @routes.get("/domains/config/<group>/<option>/default", policy="identity:get_domain_config_default")
    async def default_option(self, call: Call, group: str, option: str) -> dict[str, Any]:
        """Show the default of an option"""
        domain.check_names(group, option)
        return {"config": domain.part(domain.DEFAULTS, group, option, "")}

    # -- the rules for passwords

    @routes.get("/domains/<domain_id>/config/security_compliance", policy="identity:get_domain")
    async def security_compliance(self, call: Call, domain_id: str) -> dict[str, Any]:
        """Show the rules for passwords"""
        await self._check_own(call, domain_id)
        return {"config": {"security_compliance": self._compliance()}}

    @routes.get("/domains/<domain_id>/config/security_compliance/<rule>", policy="identity:get_domain")
    async def security_rule(self, call: Call, domain_id: str, rule: str) -> dict[str, Any]:
        """Show one of the rules for passwords"""
        await self._check_own(call, domain_id)
        found = self._compliance()
        if rule not in found:
            raise NotFound("Could not find the option in the group security_compliance.")
        return {"config": {rule: found[rule]}}

    def _compliance(self) -> dict[str, Any]:
        return {
            "password_regex": self.rules.regex or None,
            "password_regex_description": self.rules.regex_description or None,
        }

    async def _check_own(self, call: Call, domain_id: str) -> None:
        """Raises Forbidden for a domain that is not the caller's, NotFound."""
        if domain_id not in (call.identity.domain_id, call.identity.project_domain_id, call.identity.user_domain_id):
            call.require("identity:get_foreign_domain")
        await self.db.read(domains.get, domain_id)

    # -- all of it

    @routes.get("/domains/<domain_id>/config", policy="identity:get_domain_config")
    async def show(self, call: Call, domain_id: str) -> dict[str, Any]:
        """Show the configuration of a domain, without its passwords"""
        return await self._shown(domain_id)

    @routes.put("/domains/<domain_id>/config", policy="identity:create_domain_config", body=CONFIG)
    async def replace(self, call: Call, domain_id: str, body: dict[str, Any]) -> Reply:
        """Set the whole configuration of a domain"""
        wanted = domain.checked(body)
        found, is_new = await self.db.run(domain.replace, domain_id, wanted, self.keys)
        return Reply({"config": found}, status=201 if is_new else 200)

    @routes.patch("/domains/<domain_id>/config", policy="identity:update_domain_config", body=CONFIG)
    async def update(self, call: Call, domain_id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Set some options of a domain"""
        return await self._change(domain_id, body)

    @routes.delete("/domains/<domain_id>/config", policy="identity:delete_domain_config")
    async def delete(self, call: Call, domain_id: str) -> None:
        """Delete the configuration of a domain"""
        await self.db.run(domain.remove, domain_id)

    # -- a group

    @routes.get("/domains/<domain_id>/config/<group>", policy="identity:get_domain_config")
    async def show_group(self, call: Call, domain_id: str, group: str) -> dict[str, Any]:
        """Show a group of options of a domain"""
        return await self._shown(domain_id, group)

    @routes.patch("/domains/<domain_id>/config/<group>", policy="identity:update_domain_config", body=CONFIG)
    async def update_group(self, call: Call, domain_id: str, group: str, body: dict[str, Any]) -> dict[str, Any]:
        """Set options of a group that the domain has set before"""
        return await self._change(domain_id, body, group)

    @routes.delete("/domains/<domain_id>/config/<group>", policy="identity:delete_domain_config")
    async def delete_group(self, call: Call, domain_id: str, group: str) -> None:
        """Delete a group of options of a domain"""
        domain.check_names(group)
        await self.db.run(domain.remove, domain_id, group)

    # -- an option

    @routes.get("/domains/<domain_id>/config/<group>/<option>", policy="identity:get_domain_config")
    async def show_option(self, call: Call, domain_id: str, group: str, option: str) -> dict[str, Any]:
        """Show one option of a domain"""
        return await self._shown(domain_id, group, option)

    @routes.patch("/domains/<domain_id>/config/<group>/<option>", policy="identity:update_domain_config", body=CONFIG)
    async def update_option(
        self, call: Call, domain_id: str, group: str, option: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Set an option that the domain has set before"""
        return await self._change(domain_id, body, group, option)

    @routes.delete("/domains/<domain_id>/config/<group>/<option>", policy="identity:delete_domain_config")
    async def delete_option(self, call: Call, domain_id: str, group: str, option: str) -> None:
        """Delete one option of a domain"""
        domain.check_names(group, option)
        await self.db.run(domain.remove, domain_id, group, option)

    async def _shown(self, domain_id: str, group: str = "", option: str = "") -> dict[str, Any]:
        if group:
            domain.check_names(group, option)
        return {"config": await self.db.read(self._read, domain_id, group, option)}

    def _read(self, conn: Connection, domain_id: str, group: str, option: str) -> dict[str, Any]:
        return domain.part(domain.read(conn, domain_id, self.keys), group, option, f"of domain {domain_id}")

    async def _change(self, domain_id: str, body: dict[str, Any], group: str = "", option: str = "") -> dict[str, Any]:
        wanted = domain.checked(body, group, option)
        return {"config": await self.db.run(domain.change, domain_id, wanted, self.keys, group, option)}
