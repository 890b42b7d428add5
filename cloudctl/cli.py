"""`cloudctl`: the operator's command. It works on the database, whether or not the cloud is running."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import click
from cryptography.fernet import Fernet
from sqlalchemy.exc import DBAPIError
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, react
from twisted.logger import FilteringLogObserver, globalLogBeginner

from cloudctl import __version__, app, config, reference, rule_list, state_dir, text_log
from cloudctl.db import Connection, schema, secrets
from cloudctl.db.columns import utc
from cloudctl.db.database import Database
from cloudctl.db.driver import create
from cloudctl.db.ended import Ended, count, given, purge_of
from cloudctl.db.secrets import Seal
from cloudctl.db.threads import Inline
from cloudctl.drivers import loader
from cloudctl.drivers.ovn.driver import MISSING
from cloudctl.drivers.ovn.options import Config as OvnConfig
from cloudctl.errors import CloudError, ConfigError
from cloudctl.events import outbox, receivers
from cloudctl.identity import bootstrap, keys, password_rules
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.passwords import Hashing
from cloudctl.instance_ha import fencing, notifications
from cloudctl.log_levels import LogLevels
from cloudctl.options import structure
from cloudctl.tasks import queue
from cloudctl.tasks.tables import ENDED, HELD, OPEN
from cloudctl.volume import moving_backups

NAMES = [service.name for service in app.SERVICES]
# Seconds between two words about work that takes long.
PROGRESS = 5.0


class Problem(click.ClickException):
    """The configuration is wrong: one line and exit status 64, as with `twist cloudctl`."""

    exit_code = 64


class OneLine(click.Group):
    """Commands that report the caller's mistakes in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise Problem("; ".join(error.problems)) from None
        except CloudError as error:
            raise click.ClickException(error.message) from None
        except DBAPIError as error:
            if not schema.is_unusable(error):
                raise
            raise click.ClickException(schema.complaint(error, ctx.obj.database_url)) from None
        except OSError as error:
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from None


@click.group(cls=OneLine)
@click.version_option(__version__, prog_name="cloudctl", message="%(prog)s %(version)s")
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file (TOML).")
@click.option("--state-dir", "directory", type=click.Path(file_okay=False, path_type=Path), help="[default: ./state]")
@click.pass_context
def main(ctx: click.Context, file: Path | None, directory: Path | None) -> None:
    """Administer a cloud."""
    tables = config.read(file) if file else {}
    ctx.obj = config.build(tables, app.SECTIONS, config.take_state_dir(tables, directory))


def database(made: config.Config) -> Database:
    """The cloud's database, used from this thread alone. Raises ClickException where there is none: it makes none."""
    if not made.database.url and not (made.state_dir / state_dir.DATABASE).exists():
        raise click.ClickException(f"there is no cloud in {made.state_dir}; --state-dir or --config says where it is")
    clock = Clock()
    clock.rightNow = time.time()
    inline: Any = Inline()
    return Database(create(made.database_url), inline, inline, clock)


@main.command()
def drivers() -> None:
    """List the drivers that can be configured, and the plugin files that cannot be imported."""
    for maker in loader.available():
        click.echo(f"{maker.kind:<12}{maker.name:<15} {maker.description}")
    for module, why in loader.failed_plugins().items():
        click.echo(f"{module}: {why}", err=True)


@main.command()
@click.option("--service", type=click.Choice(NAMES), help="Only the rules of one service.")
@click.pass_obj
def policy(made: config.Config, service: str | None) -> None:
    """List the rules in force, including those from [policy] file, and the API calls that each one guards."""
    override = Path(made.policy.file) if made.policy.file else None
    for line in rule_list.lines(reference.sample(), override, service):
        click.echo(line)


@main.group("keys")
def keys_group() -> None:
    """Manage the keys that seal tokens, and those that seal secrets in the database."""


@keys_group.command()
@click.pass_obj
def rotate(made: config.Config) -> None:
    """Make the staged key the primary one and stage a new one. A running cloud picks it up within half a minute."""
    most = made.section(IdentityOptions).fernet_max_keys
    primary = with_keys(made).transact(False, keys.rotate, Seal.of(made.sealing_keys()), keys.FERNET_KEYS, most)
    click.echo(f"primary key: {primary}")


@keys_group.command()
def new() -> None:
    """Print a key for [database] sealing_keys."""
    click.echo(Fernet.generate_key().decode())


@keys_group.command()
@click.pass_obj
def reseal(made: config.Config) -> None:
    """Reseal all secrets in the database with the first key of [database] sealing_keys."""
    with_keys(made).transact(False, secrets.reseal, Seal.of(made.sealing_keys()))
    click.echo("resealed")


def with_keys(made: config.Config) -> Database:
    """The database. Raises ConfigError unless a start has put keys into it."""
    found = database(made)
    version = found.transact(True, schema.found_version)
    if version is None or version[0] < schema.VERSION:
        raise ConfigError(["database: no process of this release has been started with it; its first start makes keys"])
    return found


@main.command("reset-admin")
@click.option(
    "--password",
    envvar="CLOUDCTL_ADMIN_PASSWORD",
    help="Better given as CLOUDCTL_ADMIN_PASSWORD: others may see the command line. [default: a random one]",
)
@click.pass_obj
def reset_admin(made: config.Config, password: str | None) -> None:
    """Give the user admin a new password, and enable it, its project and the default domain, should they be disabled.

    Its roles are given back, too, and its old tokens end.
    """
    options = made.section(IdentityOptions)
    if password:
        password_rules.check(password, options.passwords)
    chosen = password or token_urlsafe(15)
    hashed = Hashing(options.argon2).hash(chosen)
    found = with_keys(made)
    found.transact(False, bootstrap.reset_admin, hashed, utc(time.time()))
    click.echo("done" if password else f"the password of admin: {chosen}")


@main.group()
def db() -> None:
    """Show and upgrade the database schema, and remove what it need not hold any more."""


@db.command()
@click.pass_obj
def version(made: config.Config) -> None:
    """Print the schema version of the database and of this release."""
    found = database(made).transact(True, schema.found_version)
    click.echo(f"database: {found[0] if found else 'empty'}, this release: {schema.VERSION}")


@db.command()
@click.pass_obj
def upgrade(made: config.Config) -> None:
    """Bring the schema up to date, as starting the cloud does."""
    click.echo("upgraded" if schema.prepare(database(made)) else "already up to date")


@db.command()
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(1, 36_500),
    required=True,
    metavar="DAYS",
    help="What ended, was deleted or expired within so many days stays.",
)
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.pass_obj
def purge(made: config.Config, days: int, dry_run: bool) -> None:
    """Remove rows that have outlived their use, such as deleted servers and ended tasks, while the cloud goes on."""
    db, age = with_keys(made), timedelta(days=days)
    began = utc(db.transact(True, Connection.now))
    total = 0
    for ended in (each for service in app.SERVICES for each in service.ended):
        if dry_run:
            removed = db.transact(True, count, ended, given(ended, began, age))
        else:
            removed = _purged(db, ended, began, age)
        total += removed
        if removed:
            click.echo(f"{removed:>9}  {ended.what}")
    click.echo(f"{total:>9}  rows {'would be ' if dry_run else ''}removed")


def _purged(db: Database, ended: Ended, began: datetime, age: timedelta) -> int:
    """How many rows were removed. Long work says how far it has come."""
    removed, told = 0, time.monotonic()
    for some in purge_of(db, ended, began, age):
        removed += some
        if time.monotonic() - told >= PROGRESS:
            told = time.monotonic()
            click.echo(f"{removed:>9}  {ended.what} so far", err=True)
    return removed


@db.command()
@click.argument("message")
def revision(message: str) -> None:
    """For developers: write the next file of migrations/versions from the declared tables."""
    from cloudctl.db import revisions

    file = revisions.write(message)
    if file is None:
        click.echo("The migrations make all that the tables say; nothing was written.")
    else:
        click.echo(f"{file}: read it before you commit it, and raise VERSION in cloudctl/db/schema.py.")


@main.group()
def tasks() -> None:
    """Show and retry the work that the cloud has accepted."""


@tasks.command("list")
@click.option("--state", multiple=True, type=click.Choice([*OPEN, *ENDED, HELD]), help="May be repeated.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.pass_obj
def list_tasks(made: config.Config, state: tuple[str, ...], limit: int) -> None:
    """List tasks, newest first: those that are open or held, unless --state selects others."""
    found = database(made).transact(True, _rows, state, limit)
    for row in found:
        when = utc(row.submitted_at).isoformat(" ", "seconds")
        told = f"{row.resource_id}  {row.request_id}  {row.step or ''}  {row.error or ''}"
        click.echo(f"{row.id:<8}{row.state:<10}{when}  {row.kind:<29}  {told}")


def _rows(conn: Any, state: tuple[str, ...], limit: int) -> list[Any]:
    return list(queue.listing(conn, states=state or (*OPEN, HELD), limit=limit))


@tasks.command()
@click.argument("task_id", type=click.IntRange(1, 2**63 - 1))
@click.pass_obj
def retry(made: config.Config, task_id: int) -> None:
    """Resume a held task."""
    database(made).transact(False, queue.retry, task_id)
    click.echo(f"task {task_id} is queued")


@main.group("backups")
def backups_group() -> None:
    """Manage backups of volumes."""


@backups_group.command()
@click.pass_obj
def move(made: config.Config) -> None:
    """Have the cloud move backups that are in a directory into the object store."""
    count = database(made).transact(False, moving_backups.move_all, utc(time.time()))
    click.echo(f"{count} backups will be moved")


@main.command()
@click.pass_obj
def events(made: config.Config) -> None:
    """List the receivers of events, how far behind each one is, and why any of them is stuck."""
    db = database(made)
    last = db.transact(True, outbox.last)
    for row in db.transact(True, receivers.every):
        told = f"{row.name:<29} {last - row.position:>8} to come{row.lost:>8} lost{row.refused:>8} refused"
        stuck = f"  stuck since {row.stuck_since.isoformat(' ', 'seconds')}: {row.error}" if row.stuck_since else ""
        click.echo(told + stuck)


@main.group("hosts")
def hosts_group() -> None:
    """Hosts reported dead, and what their recovery is waiting for."""


@hosts_group.command()
@click.pass_obj
def waiting(made: config.Config) -> None:
    """List the waiting notifications, oldest first, and what each one waits for."""
    for row in database(made).transact(True, notifications.held):
        told = f"{row.id}  {row.kind:<10}{row.hostname:<19} {row.message or ''}"
        click.echo(f"{row.created_at.isoformat(' ', 'seconds')}  {told}")


@hosts_group.command()
@click.argument("name")
@click.option("--reason", required=True, help="How it is known: «I pulled its plugs».")
@click.pass_obj
def fenced(made: config.Config, name: str, reason: str) -> None:
    """Confirm that a host is off. Its servers are started elsewhere: if it is on, two guests write to one disk."""
    db = database(made)
    found = db.transact(False, fencing.vouch, name, reason, utc(db.clock.seconds()))
    click.echo(f"notification {found.id} goes on")


@hosts_group.command()
@click.argument("name")
@click.pass_obj
def approve(made: config.Config, name: str) -> None:
    """Allow recovery from a host even if many are dead at once or it may be alive. It is still fenced first."""
    db = database(made)
    found = db.transact(False, fencing.let_go_on, name, utc(db.clock.seconds()))
    click.echo(f"notification {found.id} goes on")


@main.command("metadata-proxy")
@click.pass_obj
def metadata_proxy(made: config.Config) -> None:
    """Answer this host's guests at 169.254.169.254, for the network driver ovn, until it is stopped."""
    from twisted.internet import reactor

    try:
        from cloudctl.metadata_proxy import proxy
    except ModuleNotFoundError as error:
        if error.name != "ovs":
            raise
        raise ConfigError([MISSING]) from error
    options = structure(OvnConfig, made.driver.get("network", {}).get("ovn", {}), "driver.network.ovn")
    served = proxy.create(options, reactor)

    def run(reactor: Any) -> Deferred[None]:
        reactor.addSystemEventTrigger("before", "shutdown", served.stopService)
        served.startService()
        return Deferred()

    globalLogBeginner.beginLoggingTo([FilteringLogObserver(text_log.observer(sys.stderr), [LogLevels()])])
    react(run)


@main.group()
def docs() -> None:
    """For developers: print the pages that are generated from the code."""


@docs.command("api")
def docs_api() -> None:
    """Print docs/api.md: every API call with its rule."""
    click.echo(reference.api(reference.sample()), nl=False)


@docs.command("policy")
def docs_policy() -> None:
    """Print etc/policy.toml: every rule as shipped."""
    click.echo(reference.rules(), nl=False)


if __name__ == "__main__":
    main()
