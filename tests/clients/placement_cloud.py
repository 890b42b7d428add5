"""A cloud with identity and placement alone: `placement_cloud.py PORT DIRECTORY`. It has no hosts, so no providers."""

import sys
from pathlib import Path

from twisted.logger import globalLogBeginner, textFileLogObserver

from cloudctl import config
from cloudctl.app import Cloud
from cloudctl.composition import sections
from cloudctl.events.service import SERVICE as EVENTS
from cloudctl.identity.service import SERVICE as IDENTITY
from cloudctl.placement.service import SERVICE as PLACEMENT

SERVICES = (EVENTS, IDENTITY, PLACEMENT)


def main(port, directory):
    from twisted.internet import reactor

    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)])
    listen = {"server": {"listen": [f"tcp:{port}:interface=127.0.0.1"]}}
    cloud = Cloud(config.build(listen, sections(SERVICES), Path(directory)), reactor, services=SERVICES)
    cloud.prepare({"admin": "password"})
    cloud.startService()
    reactor.addSystemEventTrigger("before", "shutdown", cloud.stopService)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
