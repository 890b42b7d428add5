"""`twist cloudctl`: options in, service out."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any, NoReturn

import attrs
from sqlalchemy.exc import DBAPIError
from twisted.application.service import IService
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.logger import FilteringLogObserver, Logger, LogLevel, jsonFileLogObserver, textFileLogObserver
from twisted.python import usage

from cloudctl import attrs_code


@contextmanager
def kept() -> Iterator[None]:
    """Keep what is imported out of garbage collections, now and later: it is there to stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


with kept(), attrs_code.kept():
    from cloudctl import __version__, app, bootstrap, config, json_log, text_log
    from cloudctl.db import schema
    from cloudctl.errors import ConfigError
    from cloudctl.log_levels import LogLevels

log = Logger()


class Options(usage.Options):
    """What the command line can set; the rest is in the configuration file."""

    synopsis = "[options]"
    longdesc = "Run a whole OpenStack-compatible cloud. etc/cloudctl.toml shows every option of the configuration file."
    optParameters = [  # noqa: RUF012 - the form that usage.Options asks for
        ["config", "c", None, "Configuration file (TOML)."],
        ["state-dir", "s", None, "Where the database, images and keys are kept [default: ./state]."],
        ["ha-listen", None, None, "Endpoint of the instance-HA API, e.g. tcp:15868:interface=127.0.0.1."],
    ]

    def __init__(self) -> None:
        super().__init__()
        self.listen: list[str] = []
        self.config: config.Config | None = None

    def opt_listen(self, endpoint: str) -> None:
        """Endpoint of the main APIs, e.g. tcp:8780:interface=127.0.0.1 or unix:/run/cloud.sock. May be repeated."""
        self.listen.append(endpoint)

    opt_l = opt_listen

    def opt_version(self) -> NoReturn:
        """Print the version of cloudctl and exit."""
        print(f"cloudctl {__version__}")
        raise SystemExit(0)

    def parseOptions(self, options: list[str] | None = None) -> None:
        """As in usage.Options, but a mistake is reported in one line, without the whole usage after it."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            stop(str(error))

    def postOptions(self) -> None:
        """Read the configuration. Raises UsageError."""
        try:
            self.config = self._read()
        except ConfigError as error:
            raise usage.UsageError("; ".join(error.problems)) from None

    def _read(self) -> config.Config:
        tables = config.read(Path(self["config"])) if self["config"] else {}
        state_dir = config.take_state_dir(tables, self["state-dir"])
        overrides: dict[str, Any] = {}
        if self.listen:
            overrides["listen"] = self.listen
        if self["ha-listen"] is not None:
            overrides["ha_listen"] = [self["ha-listen"]] if self["ha-listen"] else []
        made = config.build(tables, app.SECTIONS, state_dir, overrides)
        check_endpoints(made)
        return made


def check_endpoints(made: config.Config) -> None:
    """Raises ConfigError with a line for each listener that is not an endpoint string."""
    from twisted.internet import reactor

    listeners = [(f"server.{name}", text) for name in ("listen", "ha_listen") for text in getattr(made.server, name)]
    for section, options in made.services.items():
        found = [each.name for each in attrs.fields(type(options)) if each.metadata.get("endpoint")]
        listeners += [(f"{section}.{name}", getattr(options, name)) for name in found if getattr(options, name)]
    problems = []
    for name, text in listeners:
        try:
            # The port of an endpoint by TCP; what is found too late to name the option, when it listens.
            port = getattr(serverFromString(reactor, text), "_port", 0)
            if not 0 <= port <= 65535:
                raise ValueError(f"{port} is not a port")
        except Exception as error:  # endpoint parsers are plugins and raise what they like
            problems.append(f"{name}: {text!r} is not a valid endpoint: {told_by(error)}")
    if problems:
        raise ConfigError(problems)


def told_by(error: Exception) -> str:
    """What a parser of endpoints says. OpenSSL says it in triples, and of which file it does not."""
    if not (error.args and isinstance(error.args[0], list)):
        return str(error)
    reasons = ", ".join(str(each[-1]) for each in error.args[0])
    return f"its private key or its certificate cannot be read ({reasons}): both must be PEM"


def announce(made: config.Config) -> None:
    """Print what a newcomer copies, as it is: `twist` turns ordinary output into lines of its log."""
    if sys.__stderr__ is not None:
        print(bootstrap.first_lines(made), file=sys.__stderr__, flush=True)


def collect_from_now_on() -> None:
    """The start is over: collect garbage again, but leave modules, classes and statements out of it.

    A page of 1,000 servers sets off several collections. Done here and not in `app.Cloud`: this process is ours, one
    that embeds a cloud is not.
    """
    gc.freeze()
    gc.enable()


def filter_log(options: Options) -> LogLevels | None:
    """Have `twist`, whose log begins after makeService, write what these levels let through. None without `twist`."""
    twist = options.parent
    if twist is None or "fileLogObserverFactory" not in twist:
        return None
    made = writer(twist["fileLogObserverFactory"])
    levels = LogLevels(twist["logLevel"])
    twist["fileLogObserverFactory"] = lambda out: FilteringLogObserver(made(out), [levels])
    twist["logLevel"] = LogLevel.debug
    return levels


def writer(factory: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`json_log` and `text_log` in place of Twisted's own; any other writer stays as it is."""
    ours: dict[Any, Callable[[Any], Any]] = {
        jsonFileLogObserver: json_log.observer,
        textFileLogObserver: text_log.observer,
    }
    return ours.get(factory, factory)


def stop(why: str, status: int = os.EX_USAGE) -> NoReturn:
    """Print one line and exit: by default with the status for a wrong command line (64)."""
    print(f"cloudctl: {why}", file=sys.stderr)
    raise SystemExit(status)


def why_not(error: Exception) -> str:
    """Why this process cannot listen, in one line. A `Listener` has noted where."""
    where = "; ".join(getattr(error, "__notes__", ["cannot listen"]))
    if isinstance(error, OSError) and error.filename is not None:
        # Of a link, such as the lock of a UNIX socket, the second name is the one that cannot be made.
        return f"{where}: {os.fsdecode(error.filename2 or error.filename)}: {error.strerror}"
    return f"{where}: {error}"


class CloudProcess(app.Cloud):
    """The cloud as the sole purpose of this process: if it cannot listen, nothing is left running."""

    def startService(self) -> None:
        try:
            super().startService()
        # Endpoints do not wrap everything: a UNIX socket's missing directory, or port 70000.
        except (CannotListenError, OSError, OverflowError) as error:
            print(f"cloudctl: {why_not(error)}", file=sys.stderr, flush=True)
            # Threads are already running, and cannot be stopped without the reactor, which is not. As with a kill,
            # nothing is lost.
            os._exit(os.EX_UNAVAILABLE)


# Files that a connection may keep open, itself and what it uploads or downloads; and those of all the rest.
PER_CONNECTION, OTHERS = 2, 128


def within_files(made: config.Config) -> config.Config:
    """With as many connections as this process may have open files for, which is raised as far as it may be.

    One connection more, and what fails is whatever opens a file next: the database, an image, an import.
    """
    wanted = PER_CONNECTION * made.admission.connections + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return made
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed == wanted:
        return made
    connections = max((allowed - OTHERS) // PER_CONNECTION, allowed // 8, 1)
    log.warn(
        "no more than {connections} connections at once, instead of {wanted}: this process may have {files} files open",
        connections=connections,
        wanted=made.admission.connections,
        files=allowed,
    )
    return attrs.evolve(made, admission=attrs.evolve(made.admission, connections=connections))


def makeService(options: Options) -> IService:
    """The cloud, ready to start. If it cannot work: the reason in one line, and SystemExit with 64.

    One line and 69 if the database does not answer or is none, or if a port is taken, which is only found at the start.
    """
    from twisted.internet import reactor as installed

    reactor: Any = installed
    assert options.config is not None
    levels = filter_log(options)
    # What this process and the programs it runs create is private; what others are to read is opened explicitly.
    os.umask(0o077)
    passwords = {user: os.environ.get(f"CLOUDCTL_{user.upper()}_PASSWORD") or None for user in ("admin", "demo")}
    # Until `collect_from_now_on`: what a start makes is there to stay.
    gc.disable()
    try:
        cloud = CloudProcess(within_files(options.config), reactor, log_levels=levels)
        cloud.prepare(passwords)
        reactor.callWhenRunning(announce, options.config)
        reactor.callWhenRunning(collect_from_now_on)
    except ConfigError as error:
        stop("; ".join(error.problems))
    except DBAPIError as error:
        if not schema.is_unusable(error):
            raise
        stop(schema.complaint(error, options.config.database_url), os.EX_UNAVAILABLE)
    except OSError as error:
        if error.filename is not None:
            stop(f"{error.filename}: {error.strerror}")
        if error.errno not in (ENOSPC, EDQUOT):  # which a write tells, without saying of what file
            raise
        stop(f"cannot write to {options.config.state_dir}: {error.strerror}")
    except KeyboardInterrupt:
        # A database that does not answer, or a long migration, is waited for here, where the reactor hears no signal.
        stop("interrupted before it was started", 128 + signal.SIGINT)
    return cloud
