"""Durable work: a task is a row, its steps are named, and each step looks before it acts.

`workflow` says what a workflow is, `tables` what is stored. `queue` submits, cancels and reads tasks inside the
caller's transaction. `claims` takes and leases them, `engine` decides what runs when, `run` drives one task, `claimed`
writes its row, `children` are tasks that a task waits for. `audit` compares drivers with the database. Nothing here
knows a resource.
"""

from cloudctl.tasks.queue import cancel_open, submit
from cloudctl.tasks.workflow import Context, Step, Transient, TryElsewhere, Wait, Workflow

__all__ = ["Context", "Step", "Transient", "TryElsewhere", "Wait", "Workflow", "cancel_open", "submit"]
