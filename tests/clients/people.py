"""Projects, users, roles and EC2 keys that a suite wants, by identity's API, as assignments for a shell.

    people.py URL "user:project[@domain]:role[,role]" …

makes what there is not yet; each user's password is `testing`. Prints `KEY_user=…`, `SECRET_user=…`, `ID_user=…` and
`PROJECT_user=…`.
"""

import json
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen


class Identity:
    def __init__(self, url: str) -> None:
        self.url = f"{url}/identity/v3"
        self.token = ""

    def ask(self, method: str, path: str, body: object = None):
        headers = {"Content-Type": "application/json"} | ({"X-Auth-Token": self.token} if self.token else {})
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data, headers, method=method)) as answer:
            text = answer.read()
            return answer.headers, json.loads(text) if text else {}

    def login(self, user: str, password: str, project: str, domain: str) -> dict:
        named = {"id": domain}
        auth = {
            "identity": {
                "methods": ["password"],
                "password": {"user": {"name": user, "domain": named, "password": password}},
            },
            "scope": {"project": {"name": project, "domain": named}},
        }
        self.token = ""
        headers, told = self.ask("POST", "/auth/tokens", {"auth": auth})
        self.token = headers["X-Subject-Token"]
        return told["token"]

    def found(self, kind: str, name: str, more: dict | None = None) -> str:
        """The id of what has the name, which is made if there is none."""
        query = "".join(f"&{key}={value}" for key, value in (more or {}).items() if key == "domain_id")
        (_, listed) = self.ask("GET", f"/{kind}s?name={name}{query}")
        if listed[f"{kind}s"]:
            return listed[f"{kind}s"][0]["id"]
        return self.ask("POST", f"/{kind}s", {kind: {"name": name, **(more or {})}})[1][kind]["id"]


def main() -> None:
    url, wanted = sys.argv[1], [each.split(":") for each in sys.argv[2:]]
    admin = Identity(url)
    admin.login("admin", "password", "admin", "default")
    for user, where, roles in wanted:
        project, _, domain = where.partition("@")
        owner = admin.found("domain", domain) if domain else "default"
        project_id = admin.found("project", project, {"domain_id": owner})
        user_id = admin.found("user", user, {"domain_id": owner, "password": "testing"})
        for role in roles.split(","):
            role_id = admin.found("role", role)
            admin.ask("PUT", f"/projects/{project_id}/users/{user_id}/roles/{role_id}")
        made = admin.ask("POST", f"/users/{user_id}/credentials/OS-EC2", {"tenant_id": project_id})[1]["credential"]
        print(f"KEY_{user}={made['access']} SECRET_{user}={made['secret']}")
        print(f"ID_{user}={user_id} PROJECT_{user}={project_id}")


if __name__ == "__main__":
    try:
        main()
    except HTTPError as error:
        sys.exit(f"{error.url}: {error.code} {error.read().decode()}")
