"""Run the tests that come with placement in YAML, each file against a new cloud: `placement_gabbits.py [FILE…]`.

CLOUD_PYTHON, CLOUD_ROOT and PORT say how such a cloud is started. The tests' own fixtures fill placement's database;
here their functions make the same by the API.
"""

import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import placement
from gabbi import driver
from oslo_utils.fixture import uuidsentinel
from placement.tests.functional.fixtures import gabbits

HERE = Path(__file__).parent
PORT = int(os.environ.get("PORT", "8791"))
URL = f"http://127.0.0.1:{PORT}"
LATEST = "1.39"
# They replace placement's policy, or its way to know who is asking.
OTHER_RULES = re.compile(r".*-(rbac|policy)|cors")
RANDOM = (
    *("RP_UUID", "RP_NAME", "RP_UUID1", "RP_NAME1", "RP_UUID2", "RP_NAME2", "PARENT_PROVIDER_UUID"),
    *("ALT_PARENT_PROVIDER_UUID", "PROJECT_ID", "ADMIN_PROJECT_ID", "SERVICE_PROJECT_ID", "PROJECT_ID_ALT", "USER_ID"),
    *("USER_ID_ALT", "INSTANCE_UUID", "MIGRATION_UUID", "CONSUMER_UUID"),
)
LOGIN = {
    "auth": {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "admin", "domain": {"id": "default"}, "password": "password"}},
        },
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }
}


def ask(method, path, body=None, version=LATEST):
    """The JSON of an answer, and its headers. Raises HTTPError."""
    headers = {"Content-Type": "application/json", "OpenStack-API-Version": f"placement {version}"}
    if "TOKEN" in os.environ:
        headers["X-Auth-Token"] = os.environ["TOKEN"]
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method)) as answer:
        return json.loads(answer.read() or "null"), answer.headers


def tell(provider, what, **body):
    path = f"/placement/resource_providers/{provider.uuid}"
    body["resource_provider_generation"] = ask("GET", path)[0]["generation"]
    ask("POST" if what == "inventories" else "PUT", f"{path}/{what}", body)


class Provider:
    def __init__(self, uuid):
        self.uuid = uuid

    def set_aggregates(self, ids):
        tell(self, "aggregates", aggregates=list(ids))


class Named:
    """A user, a project, a consumer: a name that allocations will use."""

    def __init__(self, context=None, **known):
        vars(self).update(known)

    def create(self):
        pass


class ResourceClass(Named):
    def create(self):
        ask("PUT", f"/placement/resource_classes/{self.name}")


def create_provider(context, name, *aggregates, parent=None, uuid=None):
    provider = Provider(uuid or getattr(uuidsentinel, name))
    body = {"name": name, "uuid": provider.uuid} | ({"parent_provider_uuid": parent} if parent else {})
    ask("POST", "/placement/resource_providers", body)
    if aggregates:
        provider.set_aggregates(aggregates)
    return provider


def add_inventory(provider, name, total, **more):
    if name.startswith("CUSTOM_"):
        ask("PUT", f"/placement/resource_classes/{name}")
    tell(provider, "inventories", resource_class=name, **{"total": total, "max_unit": total, **more})


def set_traits(provider, *names):
    for name in names:
        if name.startswith("CUSTOM_"):
            ask("PUT", f"/placement/traits/{name}")
    tell(provider, "traits", traits=list(names))


def ensure_consumer(context, user, project, consumer_id=None):
    return Named(uuid=consumer_id or gabbits.uuidutils.generate_uuid(), user=user, project=project)


def set_allocation(context, provider, consumer, amounts):
    path = f"/placement/allocations/{consumer.uuid}"
    has = ask("GET", path)[0]
    body = {
        "allocations": {**has["allocations"], provider.uuid: {"resources": amounts}},
        "user_id": consumer.user.external_id,
        "project_id": consumer.project.external_id,
        "consumer_generation": has.get("consumer_generation"),
    }
    ask("PUT", path, body, "1.28")


def create_user_and_project(context, prefix="fake"):
    return Named(external_id=f"{prefix}-user"), Named(external_id=f"{prefix}-project")


def answers():
    try:
        urllib.request.urlopen(f"{URL}/healthcheck").close()
    except OSError:
        return False
    return True


def start(fixture):
    fixture.context = None
    fixture.directory = tempfile.TemporaryDirectory()
    fixture.log = Path(fixture.directory.name) / "log"
    command = [os.environ["CLOUD_PYTHON"], HERE / "placement_cloud.py", str(PORT), f"{fixture.directory.name}/state"]
    environment = {**os.environ, "PYTHONPATH": os.environ["CLOUD_ROOT"]}
    if answers():
        raise AssertionError(f"{URL} is somebody else's: choose another PORT")
    with fixture.log.open("w") as log:
        fixture.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    atexit.register(fixture.process.kill)
    while not answers():
        if fixture.process.poll() is not None:
            raise AssertionError(fixture.log.read_text())
        time.sleep(0.1)
    os.environ.pop("TOKEN", None)
    os.environ["TOKEN"] = ask("POST", "/identity/v3/auth/tokens", LOGIN)[1]["X-Subject-Token"]
    os.environ.update({name: gabbits.uuidutils.generate_uuid() for name in RANDOM})
    classes = {f"CUSTOM_RES_CLASS{number}": f"CUSTOM_IRON_NFV{number}" for number in ("", 1, 2)}
    os.environ.update(classes)


def stop(fixture):
    fixture.process.terminate()
    fixture.process.wait()
    if "Traceback" in (said := fixture.log.read_text()):
        raise AssertionError(said)
    fixture.directory.cleanup()


gabbits.tb = SimpleNamespace(**globals())
gabbits.user_obj = SimpleNamespace(User=Named)
gabbits.project_obj = SimpleNamespace(Project=Named)
gabbits.rc_obj = SimpleNamespace(ResourceClass=ResourceClass)
gabbits.APIFixture.start_fixture, gabbits.APIFixture.stop_fixture = start, stop


def main(chosen):
    token = re.compile(r"x-auth-token: admin\s*$", re.MULTILINE)
    result = unittest.TextTestResult(unittest.runner._WritelnDecorator(sys.stderr), True, 1)
    for file in sorted(Path(placement.__file__).parent.glob("tests/functional/gabbits/*.yaml")):
        if OTHER_RULES.fullmatch(file.stem) or (chosen and file.stem not in chosen):
            continue
        with tempfile.TemporaryDirectory() as directory:
            text = token.sub("x-auth-token: \"$ENVIRON['TOKEN']\"", file.read_text())
            (Path(directory) / file.name).write_text(text.replace("OpenPolicyFixture", "APIFixture"))
            loader = unittest.TestLoader()
            driver.build_tests(
                directory, loader, host="127.0.0.1", port=PORT, prefix="/placement", fixture_module=gabbits,
                test_loader_name=file.stem, verbose=False,
            ).run(result)  # fmt: skip
    result.printErrors()
    print(f"{result.testsRun} tests, {len(result.failures)} failures, {len(result.errors)} errors")
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
