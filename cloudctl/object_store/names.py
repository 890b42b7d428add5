"""Names of accounts, containers and objects. Reference: object-store.md, A1.

A name is any UTF-8 that a client chooses, except NUL: it is only kept in the database, and never part of a path.
"""

from __future__ import annotations

from attrs import frozen

from cloudctl.errors import Invalid, PreconditionFailed

ACCOUNT = "AUTH_"
MOST_OF_CONTAINER = 256  # bytes
MOST_OF_OBJECT = 1024

BAD_TEXT = "Invalid UTF8 or contains NULL"


@frozen
class Place:
    """What a path names: an account, a container in it, or an object in that. Empty: the path ends earlier.

    `project_id` is empty for an account of no project.
    """

    project_id: str
    container: str = ""
    name: str = ""

    @property
    def account(self) -> str:
        return f"{ACCOUNT}{self.project_id}"

    def inside(self, path: str) -> Place:
        """`/container/object` of this account. Raises Invalid, PreconditionFailed."""
        container, _, name = path.lstrip("/").partition("/")
        return placed(self.account, container, name)


def check_text(text: str) -> None:
    """Raises PreconditionFailed."""
    if not is_text(text):
        raise PreconditionFailed(BAD_TEXT)


def placed(account: str, container: str = "", name: str = "") -> Place:
    """Raises PreconditionFailed for invalid text, Invalid for names that are too long."""
    for text in (account, container, name):
        check_text(text)
    for text, most, kind in ((container, MOST_OF_CONTAINER, "Container"), (name, MOST_OF_OBJECT, "Object")):
        size = len(text.encode())
        if size > most:
            raise Invalid(f"{kind} name length of {size} longer than {most}")
    project_id = account.removeprefix(ACCOUNT) if account.startswith(ACCOUNT) else ""
    return Place(project_id if len(project_id) <= 64 else "", container, name)


def is_text(text: str) -> bool:
    """Whether it may be a name at all. Databases refuse anything else, too."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # Bytes that are not UTF-8 arrive as surrogates.
        return False
    return "\0" not in text
