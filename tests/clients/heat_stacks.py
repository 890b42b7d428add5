"""Two stacks of Heat's, made, changed, checked and removed in this process; what does not complete raises."""

import sys

from heat.common import context, messaging, template_format
from heat.db import migration
from heat.engine import environment, resources, stack, template
from keystoneauth1.identity.generic import Password
from keystoneauth1.session import Session
from oslo_config import cfg

URL, WORK = sys.argv[1:]
HERE = __file__.rpartition("/")[0]
# What the second template of each stack changes, in place.
CHANGES = (
    ("description: one", "description: two"),
    ("size: 1", "size: 2"),
    ("name: first", "name: second"),
    ("m1.tiny", "m1.small"),
    ("9.9.9.9", "8.8.8.8"),
    ("port_range_max: 22", "port_range_max: 23"),
    ("max_kbps: 100", "max_kbps: 300"),
    ("part: front", "part: back"),
)


def configure():
    cfg.CONF(args=[], project="heat", version="any", default_config_files=[])
    cfg.CONF.set_override("connection", f"sqlite:///{WORK}/heat.db", "database")
    cfg.CONF.set_override("auth_uri", f"{URL}/identity/v3", "clients_keystone")
    cfg.CONF.set_override("deferred_auth_method", "password")  # there is no other process that would need a trust
    cfg.CONF.set_override("region_name_for_services", "RegionOne")
    migration.db_sync()
    messaging.setup("fake:/")
    resources.initialise()


def caller(name):
    domains = {"user_domain_id": "default", "project_domain_id": "default"}
    login = Password(f"{URL}/identity/v3", username=name, password="password", project_name=name, **domains)
    access = login.get_access(Session(login))
    return context.RequestContext(
        username=name,
        password="password",
        auth_token=access.auth_token,
        auth_url=f"{URL}/identity/v3",
        auth_plugin=login,
        project_id=access.project_id,
        user_id=access.user_id,
        roles=access.role_names,
        region_name="RegionOne",
        is_admin=name == "admin",
        overwrite=False,
        **domains,
    )


def planned(by, name, text):
    parsed = template.Template(template_format.parse(text), env=environment.Environment({}))
    return stack.Stack(by, name, parsed, convergence=False)


def completed(of):
    if of.status != "COMPLETE":
        failed = [f"{name}: {each.status_reason}" for name, each in of.resources.items() if each.status == "FAILED"]
        raise AssertionError(f"{of.name}, {of.action}: {of.status_reason} {failed}")
    print(f"{of.name}: {of.action} of {len(of.resources)} resources")


def run(user, name):
    with open(f"{HERE}/heat_{name}.yml") as file, open(f"{WORK}/key.pub") as key:
        first = second = file.read().replace("@KEY@", key.read().strip())
    for old, new in CHANGES:
        second = second.replace(old, new)
    by = caller(user)
    made = planned(by, name, first)
    made.validate()
    made.store()
    made.create()
    completed(made)
    changed = planned(by, name, second)
    made.update(changed)
    completed(made)
    made = stack.Stack.load(by, made.id)
    made.check()
    completed(made)
    made = stack.Stack.load(by, made.id)
    made.delete()
    completed(made)


configure()
run("demo", "project")
run("admin", "cloud")
