"""Every page of Horizon that is linked from another, as two users see them; whatever shows an error is told and raises.

Of pages that differ by an id or a name alone one is read. Forms are opened, and some of them sent.
"""

import re
import sys
from urllib.parse import urlsplit

from openstack import connect
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

DASHBOARD = sys.argv[1]
NAME = "dashboard"  # of all that there is to see
PANELS = re.compile(r"/(project|admin|identity|settings)/")
# Files, and what ends the session or leads to another project's.
OTHERS = re.compile(
    r"/(openrc|clouds\.yaml|download|export|logout|switch|serial|rdp|spice|mks|vnc)\b|\.(txt|json|csv)$"
)
# Linked for members, and refused to them by Horizon, which asks nobody.
CLOSED = {("demo", "/identity/*/detail/")}
IDS = re.compile(rf"[0-9a-f]{{8}}-?(?:[0-9a-f]{{4}}-?){{3}}[0-9a-f]{{12}}|(?<=/)(?:OS::|{NAME})[^/]*|(?<=/)\d+(?=/)")
SHOWN = """
const http = window.angular && angular.element(document.body).injector();
if (document.readyState !== "complete" || (window.jQuery && jQuery.active)) return null;
if (http && http.get("$http").pendingRequests.length) return null;
// Scripts ask for what this user may not see, too, and do without.
const asked = performance.getEntries().filter(
    each => each.responseStatus >= (each.entryType === "navigation" ? 400 : 500));
const said = [...document.querySelectorAll(".alert-danger, .exception_value")].map(each => each.innerText.trim());
return {
    wrong: [...asked.map(each => each.responseStatus + " " + each.name), ...said.filter(text => text)],
    // Forms are opened within the page: by themselves some of them are in no template.
    links: [...document.querySelectorAll("a[href]")].map(each => [each.href, each.classList.contains("ajax-modal")]),
};
"""
OPENED = """
const done = arguments[1];
fetch(arguments[0], {headers: {"X-Requested-With": "XMLHttpRequest"}}).then(async answer => {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const said = [...page.querySelectorAll(".alert-danger, .exception_value")].map(each => each.textContent.trim());
    done({
        wrong: [...(answer.ok ? [] : [answer.status + " " + answer.url]), ...said.filter(text => text)],
        links: [],
    });
});
"""


def made(user):
    """One of each kind of thing that has a page."""
    cloud = connect(cloud=user)
    network = cloud.network.create_network(name=NAME)
    subnet = cloud.network.create_subnet(name=NAME, network_id=network.id, ip_version=4, cidr="10.77.0.0/24")
    public = next(cloud.network.networks(is_router_external=True))
    router = cloud.network.create_router(name=NAME, external_gateway_info={"network_id": public.id})
    cloud.network.add_interface_to_router(router, subnet_id=subnet.id)
    group = cloud.network.create_security_group(name=NAME)
    cloud.network.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22
    )
    cloud.compute.create_keypair(name=NAME)
    cloud.compute.create_server_group(name=NAME, policy="anti-affinity")
    image = cloud.create_image(NAME, data=b"an image", disk_format="raw", container_format="bare", wait=True)
    flavor = next(cloud.compute.flavors())
    server = cloud.create_server(NAME, image, flavor, network=network, key_name=NAME, auto_ip=False, wait=True)
    cloud.add_auto_ip(server)
    volume = cloud.create_volume(1, name=NAME, wait=True)
    cloud.create_volume_snapshot(volume.id, name=NAME, wait=True)
    cloud.create_volume_backup(volume.id, name=NAME, wait=True)
    cloud.attach_volume(server, volume)
    cloud.object_store.create_container(NAME)
    cloud.object_store.upload_object(NAME, NAME, data=b"a note")
    cloud.identity.create_application_credential(cloud.current_user_id, NAME)


def made_by_administrators():
    cloud = connect(cloud="admin")
    cloud.create_flavor(NAME, 64, 1, 1)
    aggregate = cloud.create_aggregate(NAME)
    cloud.add_host_to_aggregate(aggregate.id, next(cloud.compute.hypervisors()).name)
    kind = cloud.block_storage.create_type(name=NAME)
    qos = cloud.block_storage.post("/qos-specs", json={"qos_specs": {"name": NAME, "consumer": "back-end"}}).json()
    cloud.block_storage.get(f"/qos-specs/{qos['qos_specs']['id']}/associate?vol_type_id={kind.id}")
    cloud.block_storage.create_group_type(name=NAME)
    cloud.network.create_rbac_policy(
        object_type="network",
        object_id=next(cloud.network.networks(name="private")).id,
        action="access_as_shared",
        target_tenant=cloud.current_project_id,
    )
    for make in (cloud.identity.create_role, cloud.identity.create_domain):
        make(name=NAME)
    for make in (cloud.identity.create_group, cloud.identity.create_project):
        make(name=NAME, domain_id="default")


class Reader:
    """A browser in which one user has logged in."""

    def __init__(self, user):
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,2000"):
            options.add_argument(argument)
        self.user = user
        self.browser = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
        for limit in (self.browser.set_page_load_timeout, self.browser.set_script_timeout):
            limit(300)
        self.browser.get(f"{DASHBOARD}/auth/login/")
        for field, value in (("username", user), ("password", "password")):
            self.browser.find_element(By.NAME, field).send_keys(value)
        self.browser.find_element(By.ID, "loginBtn").click()

    def shown(self):
        """What the page shows once nothing is being fetched any more."""
        return WebDriverWait(self.browser, 300).until(lambda browser: browser.execute_script(SHOWN))

    def read(self):
        """How many pages there are; and how many errors, which are told."""
        page, seen, wrong = self.shown(), set(), 0
        waiting = page["links"]
        for link, is_form in waiting:
            path = urlsplit(link).path
            likeness = IDS.sub("*", path)
            if likeness in seen or not link.startswith(DASHBOARD) or not PANELS.match(path) or OTHERS.search(path):
                continue
            if (self.user, likeness) in CLOSED:
                continue
            seen.add(likeness)
            if is_form:
                page = self.browser.execute_async_script(OPENED, DASHBOARD + path)
            else:
                self.browser.get(DASHBOARD + path)
                page = self.shown()
            print(f"{self.user}: {likeness}", *(f"\n    WRONG: {said}" for said in page["wrong"]), flush=True)
            wrong += len(page["wrong"])
            waiting.extend(page["links"])
        return len(seen), wrong


made_by_administrators()
failed = 0
for user in ("demo", "admin"):
    made(user)
    reader = Reader(user)
    pages, wrong = reader.read()
    reader.browser.quit()
    print(f"{user}: {pages} pages, {wrong} errors on them")
    failed += wrong
sys.exit(bool(failed))
