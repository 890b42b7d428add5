"""A service of somebody else's: one call, one option, one rule, an entry in the catalog, a record in a new cloud."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from twisted.application.service import Service as TwistedService

from cloudctl.composition import CatalogEntry, FirstStart, Part, Service, Surroundings
from cloudctl.db import Connection
from cloudctl.errors import NotFound
from cloudctl.rest.app import ApiApp
from cloudctl.rest.call import Call
from cloudctl.rest.faults import Faults, named, plain_problems
from cloudctl.rest.pipeline import Http, Pipeline
from cloudctl.rest.route import Routes
from cloudctl.tasks.audit import Finding


@frozen
class ToyOptions:
    """[toy]"""

    greeting: str = "hello"


class Greetings:
    routes = Routes("Greetings")

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    @routes.get("/greetings/<name>", policy="toy:greetings:show")
    async def show(self, call: Call, name: str) -> dict[str, Any]:
        """Greet somebody."""
        if name == "nobody":
            raise NotFound("Nobody is there.")
        return {"greeting": f"{self.greeting} {name}"}


@frozen
class Diary:
    """What happened, in order."""

    lines: list[str]


class Watch(TwistedService):
    def __init__(self, name: str, diary: Diary) -> None:
        self.name = name
        self.diary = diary

    def startService(self) -> None:
        self.diary.lines.append(f"{self.name} starts")

    def stopService(self) -> None:
        self.diary.lines.append(f"{self.name} stops")


def compose(cloud: Surroundings) -> Part:
    diary = Diary([])
    options = cloud.config.section(ToyOptions)

    def build(http: Http) -> ApiApp:
        return ApiApp(
            Pipeline(http, "toy", Faults(named({}, "toyFault"), plain_problems)), [("", Greetings(options.greeting))]
        )

    def first_rows(conn: Connection, first: FirstStart) -> None:
        diary.lines.append(f"bootstrap at {first.now:%Y}")

    async def check() -> tuple[Finding, ...]:
        return (Finding("toy-broken", "toy", "1", "it is broken", False),)

    return Part(
        build,
        checks={"toy": check},
        prepare=lambda: diary.lines.append("prepare"),
        bootstrap=first_rows,
        recover=lambda: diary.lines.append("recover"),
        supports=(Watch("support", diary),),
        watches=(Watch("watch", diary),),
        shown=(diary,),
    )


SERVICE = Service(
    "tests.toy",
    "Toys",
    compose,
    mount="toy",
    options=ToyOptions,
    catalog=(CatalogEntry("toy", "toys", "{base_url}/toy"),),
)
