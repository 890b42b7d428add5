"""Events: what the cloud reports to others, written in the transaction of the change and delivered after it.

`outbox` writes and orders them, `receivers` records how far each receiver has come, `delivery` brings them to webhooks
and to a bus, `api` streams them to administrators. The services decide which events exist: each makes its own, and
makes none of a type that nobody has asked for.
"""
