"""The bodies of notifications: as specified, wrapped, and as alerting tools send them.

Reference: instance-ha.md, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import attrs
from attrs import field, frozen

from cloudctl.instance_ha.kinds import OF_HOST, OF_INSTANCE, OF_PROCESS
from cloudctl.instance_ha.notifications import NORMAL, STARTED, STOPPED, TYPES, UNKNOWN, NewNotification
from cloudctl.rest.body import (
    MISSING,
    BodyError,
    Check,
    Length,
    Missing,
    Pattern,
    Problem,
    Uuid,
    ValueProblem,
    extra,
    structure,
)
from cloudctl.rest.formats import parse_time
from cloudctl.rest.standing import shown

HostName = Annotated[str, Length(1, 255), Pattern(r"[A-Za-z0-9._-]+", "a host name")]
Word = Annotated[str, Length(1, 255)]
ProcessName = Annotated[str, Length(1, 4096)]
Type = Literal["COMPUTE_HOST", "COMPUTE_INSTANCE", "COMPUTE_PROCESS", "VM", "PROCESS"]


def _time(text: str) -> str:
    try:
        parse_time(text)
    except (ValueError, OverflowError):
        raise ValueProblem(f"{shown(text)} is not a 'date-time'") from None
    return text


Time = Annotated[str, Length(1, 64), Check(_time)]


@frozen
class Payload:
    event: Word
    cluster_status: Literal["ONLINE", "OFFLINE"] | Missing = MISSING
    host_status: Literal["NORMAL", "UNKNOWN"] | Missing = MISSING
    instance_uuid: Uuid | Missing = MISSING
    vir_domain_event: Word | Missing = MISSING
    process_name: ProcessName | Missing = MISSING

    @property
    def given(self) -> dict[str, str]:
        return {name: value for name, value in attrs.asdict(self).items() if value is not MISSING}


COMMON = {"event", "cluster_status", "host_status"}
# What is broken → the keys that its payload may have, and those that the wrapped form must have.
KEYS = {
    OF_HOST: (COMMON, set[str]()),
    OF_INSTANCE: (COMMON | {"instance_uuid", "vir_domain_event"}, {"instance_uuid", "vir_domain_event"}),
    OF_PROCESS: (COMMON | {"process_name"}, {"process_name"}),
}


@frozen
class Wrapped:
    type: Type
    hostname: HostName
    generated_time: Time
    payload: Payload


@frozen
class Alert:
    """One alert of a webhook; its other members are of no use here."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    startsAt: str | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class Posted:
    """`notification`: the wrapped form; `alerts`: the form of alerting tools; else the record at the top level."""

    notification: Wrapped | Missing = MISSING
    hostname: HostName | Missing = MISSING
    type: Type | Missing = MISSING
    payload: Payload | Missing = MISSING
    generated_time: Time | Missing = MISSING
    alerts: list[Alert] | Missing = MISSING
    others: dict[str, Any] = field(factory=dict, metadata={"extra": True})

    def notification_at(self, now: datetime) -> NewNotification:
        """For the two forms that hold one notification. Raises BodyError."""
        wrapped = self.notification is not MISSING
        if wrapped and (self.others or any(each is not MISSING for each in (self.hostname, self.type, self.payload))):
            raise BodyError([Problem("$", "a notification is wrapped, or its members are at the top", "unknown")])
        if self.notification is not MISSING:
            found = self.notification
            return _checked(found.hostname, found.type, found.payload, parse_time(found.generated_time), wrapped=True)
        return self._plain(now)

    def _plain(self, now: datetime) -> NewNotification:
        if self.others:
            raise BodyError([Problem("$", f"{shown(sorted(self.others)[0])} was unexpected", "unknown")])
        if self.hostname is MISSING or self.type is MISSING or self.payload is MISSING:
            missing = next(name for name in ("hostname", "type", "payload") if getattr(self, name) is MISSING)
            raise BodyError([Problem("$", f"'{missing}' is a required property", "required")])
        when = now if self.generated_time is MISSING else parse_time(self.generated_time)
        return _checked(self.hostname, self.type, self.payload, when, wrapped=False)


def _checked(hostname: str, type: str, payload: Payload, when: datetime, *, wrapped: bool) -> NewNotification:
    """Raises BodyError for a payload that does not fit the type."""
    kind, said = TYPES[type], payload.given
    allowed, required = KEYS[kind]
    problems = [
        Problem(f"$.payload.{name}", f"{shown(name)} was unexpected", "unknown")
        for name in sorted(said.keys() - allowed)
    ]
    if wrapped:
        problems += [
            Problem("$.payload", f"'{name}' is a required property", "required")
            for name in sorted(required - said.keys())
        ]
    if kind == OF_PROCESS:
        said["event"] = said["event"].upper()
    if kind != OF_INSTANCE and said["event"] not in (STOPPED, STARTED):
        problems.append(Problem("$.payload.event", f"{shown(said['event'])} is not one of ['STOPPED', 'STARTED']"))
    if problems:
        raise BodyError(problems)
    return NewNotification(hostname, type, said, when)


# -- alerts

HOST_LABELS = ("hostname", "host", "node", "nodename")
# What the payload says in the other forms.
OTHER_LABELS = ("instance_uuid", "process_name")


def of_alerts(alerts: list[Alert], now: datetime) -> Iterator[tuple[str, NewNotification | str]]:
    """(host, its notification, or why there is none) for each alert."""
    for alert in alerts:
        hostname = _host(alert.labels)
        try:
            yield hostname, _of_alert(hostname, alert, now)
        except (BodyError, ValueError) as error:
            yield hostname, str(error)


def _host(labels: Mapping[str, str]) -> str:
    named = next((labels[name] for name in HOST_LABELS if labels.get(name)), "")
    return named or labels.get("instance", "").rpartition(":")[0] or labels.get("instance", "")


def _of_alert(hostname: str, alert: Alert, now: datetime) -> NewNotification:
    """Raises ValueError, BodyError."""
    type = alert.labels.get("ha_type", "COMPUTE_HOST")
    if type not in TYPES:
        raise ValueError(f"ha_type {shown(type)} is unknown")
    firing = alert.status == "firing"
    # Nothing is evacuated unless the alert says that the host is known to be dead.
    status = alert.labels.get("host_status", UNKNOWN if firing else NORMAL)
    if status not in (NORMAL, UNKNOWN):
        raise ValueError(f"host_status {shown(status)} is unknown")
    said = {
        "event": STOPPED if firing else STARTED,
        "cluster_status": "OFFLINE" if firing else "ONLINE",
        "host_status": status,
        **{name: alert.labels[name] for name in OTHER_LABELS if alert.labels.get(name)},
    }
    return _checked(hostname, type, structure(said, Payload, "$.payload"), now, wrapped=False)
