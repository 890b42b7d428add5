"""What everything is compared with: one `async` Klein route that answers a small JSON body and does nothing else."""

from __future__ import annotations

import json
import sys

from klein import Klein
from twisted.web.server import Site

app = Klein()


@app.route("/thing/<name>")
async def thing(request, name):
    request.setHeader("Content-Type", "application/json")
    body = json.dumps({"thing": {"name": name}}).encode()
    request.setHeader("Content-Length", str(len(body)))
    return body


if __name__ == "__main__":
    from twisted.internet import reactor

    site = Site(app.resource())
    site.log = lambda request: None
    reactor.listenTCP(int(sys.argv[1]), site, interface="127.0.0.1")
    reactor.run()
