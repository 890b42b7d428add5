"""What everything is compared with: one `async` Klein route that answers a small JSON body and does nothing else.

Beside it is the least that a service can do that writes to disk before it answers: the same route with one row
committed first, by SQLite with synchronous=FULL, in a thread.
"""

from __future__ import annotations

import json
import sqlite3
import sys

from klein import Klein
from twisted.internet.threads import deferToThread
from twisted.web.server import Site

app = Klein()
database = sqlite3.connect(":memory:")


@app.route("/thing/<name>")
async def thing(request, name):
    return answer(request, name)


@app.route("/committed/<name>")
async def committed(request, name):
    await deferToThread(commit, name)
    return answer(request, name)


def answer(request, name):
    request.setHeader("Content-Type", "application/json")
    body = json.dumps({"thing": {"name": name}}).encode()
    request.setHeader("Content-Length", str(len(body)))
    return body


def commit(name):
    database.execute("BEGIN IMMEDIATE")
    database.execute("INSERT INTO things (name) VALUES (?)", (name,))
    database.execute("COMMIT")


def opened(path):
    found = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    found.execute("PRAGMA journal_mode = WAL")
    found.execute("PRAGMA synchronous = FULL")
    found.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)")
    return found


if __name__ == "__main__":
    from twisted.internet import reactor

    database = opened(sys.argv[2])
    site = Site(app.resource())
    site.log = lambda request: None
    reactor.listenTCP(int(sys.argv[1]), site, interface="127.0.0.1")
    reactor.run()
