"""Durable work: a task is a row, its steps are named, and each step looks before it acts.

`kind` names tasks, `workflow` defines how their work is done, `tables` what is stored. `queue` submits, cancels and
reads tasks inside the caller's transaction. `claims` takes and leases them, `engine` decides what runs when, `run`
drives one task, `claimed` writes its row, `children` are tasks that a task waits for. `audit` compares drivers with the
database. Nothing here knows any particular resource.
"""

from cloudctl.tasks.kind import Action, Kind, Origin, Phase, Told, Unasked
from cloudctl.tasks.queue import cancel_open, has_open, submit, submit_once, supersede
from cloudctl.tasks.workflow import Context, Step, Transaction, Transient, TryElsewhere, Wait, Workflow

__all__ = [
    "Action",
    "Context",
    "Kind",
    "Origin",
    "Phase",
    "Step",
    "Told",
    "Transaction",
    "Transient",
    "TryElsewhere",
    "Unasked",
    "Wait",
    "Workflow",
    "cancel_open",
    "has_open",
    "submit",
    "submit_once",
    "supersede",
]
