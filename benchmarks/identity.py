"""What identity costs with few and with many users and projects, in the same run on the same machine.

    python benchmarks/identity.py [--users 10000]

Two clouds on SQLite with synchronous=FULL, one with 100 users and projects and one with many, get requests in turn; the
last column is how much more the second one takes. A figure is the processor time that the server spends on an answer,
so that other work on the machine does not count. Logins are complete: they include argon2. Validation is compared with
a bare Klein route.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from attrs import frozen
from load import Serial, encode
from processor import BareKlein, spent

from tests.live.process import LiveCloud

FEW = 100
ROWS = 40  # per page
VALIDATION = "token validation, warm"


class Identity:
    """`users` users, each with a project of its own in which it is a member."""

    def __init__(self, live: LiveCloud) -> None:
        self.live = live
        assert live.process is not None
        self.pid = live.process.pid
        self.serial = Serial(live.port)
        self.token = live.token("admin")
        self.users: list[str] = []
        self.projects: list[str] = []
        self.member = self.ask("GET", "/roles?name=member")["roles"][0]["id"]

    def request(self, method: str, path: str, body: Any = None, token: str = "") -> bytes:
        headers = {"X-Auth-Token": token or self.token, "Content-Type": "application/json"}
        return encode(method, f"/identity/v3{path}", headers, b"" if body is None else json.dumps(body).encode())

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer, _ = self.serial.ask(self.request(method, path, body))
        assert status < 300, answer
        return json.loads(answer) if answer else None

    def fill(self, count: int) -> None:
        """Only the last user has a password: hashing takes time."""
        for number in range(len(self.users), count):
            name = f"bench-{number}"
            user = {"name": name, **({"password": "secret-of-mine"} if number == count - 1 else {})}
            self.users.append(self.ask("POST", "/users", {"user": user})["user"]["id"])
            self.projects.append(self.ask("POST", "/projects", {"project": {"name": name}})["project"]["id"])
            self.ask("PUT", f"/projects/{self.projects[-1]}/users/{self.users[-1]}/roles/{self.member}")

    def login_body(self) -> dict[str, Any]:
        name, domain = f"bench-{len(self.users) - 1}", {"id": "default"}
        user = {"name": name, "domain": domain, "password": "secret-of-mine"}
        identity = {"methods": ["password"], "password": {"user": user}}
        return {"auth": {"identity": identity, "scope": {"project": {"name": name, "domain": domain}}}}

    def anew(self, path: str) -> Callable[[int], bytes]:
        """An unused parameter keeps an answer from being used twice."""
        return lambda number: self.request("GET", f"{path}{'&' if '?' in path else '?'}x={number}")

    def requests(self) -> dict[str, Callable[[int], bytes]]:
        """What is measured: name → the n-th request."""
        json_type = {"Content-Type": "application/json"}
        login = encode("POST", "/identity/v3/auth/tokens", json_type, json.dumps(self.login_body()).encode())
        headers = {"X-Auth-Token": self.token, "X-Subject-Token": self.token}
        warm = encode("GET", "/identity/v3/auth/tokens", headers)
        number = len(self.users) // 2
        user, before = self.users[number], self.users[number - ROWS]
        return {
            VALIDATION: lambda n: warm,
            "token validation, read anew": lambda n: encode("GET", f"/identity/v3/auth/tokens?x={n}", headers),
            "login by password": lambda n: login,
            "first page of users": self.anew(f"/users?limit={ROWS}"),
            "page of users in the middle": self.anew(f"/users?limit={ROWS}&marker={before}"),
            "users by name": self.anew(f"/users?name=bench-{number}"),
            "one user": self.anew(f"/users/{user}"),
            "first page of projects": self.anew(f"/projects?limit={ROWS}"),
            "projects by name": self.anew(f"/projects?name=bench-{number}"),
            "role assignments of a user": self.anew(f"/role_assignments?user.id={user}"),
            "role assignments of a project, effective": self.anew(
                f"/role_assignments?scope.project.id={self.projects[number]}&effective"
            ),
            "projects of a token": self.anew("/auth/projects"),
        }


@frozen
class Asked:
    """A server and a request to it."""

    pid: int
    serial: Serial
    request: Callable[[int], bytes]


def costs(asked: Sequence[Asked], times: int) -> list[float]:
    """Milliseconds of processor time that each server spends on an answer. They take turns, ten requests each."""
    for one in asked:
        for number in range(5):
            one.serial.ask(one.request(-1 - number))
    began = [spent(one.pid) for one in asked]
    for block in range(0, times, 10):
        for one in asked:
            for number in range(block, block + 10):
                status, body, _ = one.serial.ask(one.request(number))
                assert status < 300, body
    return [1000 * (spent(one.pid) - start) / times for one, start in zip(asked, began, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10_000)
    options = parser.parse_args()
    with BareKlein() as klein, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        run(Path(directory), klein, options.users)


def run(directory: Path, klein: BareKlein, most: int) -> None:
    clouds = []
    try:
        for size in (FEW, most):
            (directory / str(size)).mkdir()
            live = LiveCloud(directory / str(size), afresh=True)
            live.start()
            clouds.append(Identity(live))
            clouds[-1].fill(size)
        report(clouds, klein, most)
    finally:
        for identity in clouds:
            identity.live.kill()


def report(clouds: Sequence[Identity], klein: BareKlein, most: int) -> None:
    for one in clouds:
        # The first one closed its idle connection while the other was filled.
        one.serial = Serial(one.live.port)
    print(f"{'processor milliseconds an answer, of users':<48}{FEW:>10}{most:>10}{'ratio':>10}")
    asked = [{name: Asked(one.pid, one.serial, request) for name, request in one.requests().items()} for one in clouds]
    for name in asked[0]:
        few, many = costs([requests[name] for requests in asked], 60 if "login" in name else 400)
        print(f"{name:<48}{few:10.2f}{many:10.2f}{many / few:10.2f}")
    # A new connection: an older one would not have stayed open this long.
    bare = Asked(klein.pid, Serial(klein.port), klein.request)
    unit, warm = costs([bare, asked[-1][VALIDATION]], 4000)
    print(f"bare Klein {unit:.3f} ms, token validation {warm:.3f} ms: {100 * unit / warm:.0f} % of bare Klein")


if __name__ == "__main__":
    main()
