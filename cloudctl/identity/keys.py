"""The keys that seal tokens and credentials: numbered secrets in the database, the same for every process of the cloud.

0 is staged: it will be the next primary, and every process knows it before anything is sealed with it. The highest
number is the primary; the rest only open what they sealed. Reference: identity.md, «Token formats».
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cryptography.fernet import Fernet, MultiFernet
from sqlalchemy import select
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from cloudctl.db import Connection, Database, notify, schema, secrets
from cloudctl.db.secrets import Seal, Secret
from cloudctl.errors import ConfigError
from cloudctl.tasks.rounds import Rounds

log = Logger()

# The purposes under which they are stored, and the directories in which releases before 0.1 had them.
FERNET_KEYS, CREDENTIAL_KEYS = "fernet-keys", "credential-keys"
# Notified at each commit that changes keys.
CHANNEL = "identity.keys"

STAGED = 0
# Seconds between two looks, for changes that were not announced.
PERIOD = 30.0


class KeyRing:
    """The keys of one purpose, as this process last read them."""

    def __init__(self, db: Database, seal: Seal, purpose: str) -> None:
        self.db = db
        self.seal = seal
        self.purpose = purpose
        self._keys: Mapping[int, bytes] = {}
        self._fernet: MultiFernet | None = None

    def prepare(self, directory: Path) -> None:
        """Make sure that there are keys, and read them. Blocks. Raises ConfigError; see `ensure`."""
        self.db.transact(False, ensure, self.seal, self.purpose, directory)
        self._take(self.db.transact(True, secrets.read, self.seal, self.purpose))

    async def refresh(self) -> bool:
        """Whether they have changed."""
        return self._take(await self.db.read(secrets.read, self.seal, self.purpose))

    def fernet(self) -> MultiFernet:
        """Seals with the primary, opens with any. Raises LookupError before `prepare`."""
        if self._fernet is None:
            raise LookupError(f"the {self.purpose} were not read")
        return self._fernet

    def _take(self, keys: Mapping[int, bytes]) -> bool:
        if keys == self._keys:
            return False
        self._keys = keys
        self._fernet = MultiFernet([Fernet(keys[number]) for number in sorted(keys, reverse=True)])
        return True


class KeysInMemory:
    """The keys of a cloud that ends with its process."""

    def __init__(self) -> None:
        self._fernet = MultiFernet([Fernet(Fernet.generate_key())])

    def fernet(self) -> MultiFernet:
        return self._fernet


class KeyWatch(Rounds):
    """Notices that others changed keys: at once where commits are announced, and by looking regularly.

    `forget` drops what was opened before: a key is also taken away because others know it.
    """

    def __init__(self, clock: IReactorTime, db: Database, rings: Sequence[KeyRing], forget: Callable[[], None]) -> None:
        super().__init__(clock, PERIOD, "reading the keys of tokens failed", at_once=False)
        self.rings = rings
        self.forget = forget
        db.on_commit(CHANNEL, self.look_now, elsewhere=self.look_now)

    async def look(self) -> None:
        for ring in self.rings:
            if await ring.refresh():
                self.forget()


def ensure(conn: Connection, seal: Seal, purpose: str, directory: Path) -> None:
    """Make sure that there are keys: those of `directory`, where an older release kept them, or new ones.

    Raises ConfigError for a file there that holds no key, and for keys that cannot be opened.
    """
    schema.lock(conn)
    if secrets.read(conn, seal, purpose):
        return
    found = _from_files(directory)
    if found:
        log.info(
            "the keys in {directory} were moved to the database; the directory is no longer read",
            directory=str(directory),
        )
    secrets.write(conn, seal, purpose, found or {STAGED: Fernet.generate_key(), 1: Fernet.generate_key()})


def rotate(conn: Connection, seal: Seal, purpose: str, max_keys: int) -> int:
    """The staged key becomes the primary, a new one is staged, the oldest go. Returns the new primary's number.

    Rotating more often than every `token lifetime / (max_keys - 2)` makes valid tokens unreadable.
    """
    if max_keys < 2:
        raise ValueError("a staged and a primary key are the fewest that can be kept")
    # Concurrent rotations take turns.
    conn.execute(select(Secret).where(Secret.purpose == purpose).with_for_update())
    keys = secrets.read(conn, seal, purpose)
    primary = max(keys) + 1
    keys = {**keys, primary: keys[STAGED], STAGED: Fernet.generate_key()}
    kept = sorted(keys.keys() - {STAGED})[-(max_keys - 1) :]
    secrets.write(conn, seal, purpose, {number: keys[number] for number in (STAGED, *kept)})
    notify(conn, CHANNEL)
    return primary


def _from_files(directory: Path) -> dict[int, bytes]:
    """Number → key. Raises ConfigError for a file that holds no key."""
    if not directory.is_dir():
        return {}
    found = {int(path.name): path.read_bytes().strip() for path in directory.iterdir() if path.name.isdigit()}
    for number, key in found.items():
        try:
            Fernet(key)
        except ValueError:
            raise ConfigError([f"{directory / str(number)} is not a Fernet key"]) from None
    if found and STAGED not in found:
        found[STAGED] = Fernet.generate_key()
    return found
