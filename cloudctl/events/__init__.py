"""What the cloud tells others of: events, written in the transaction of the change and delivered after it.

`outbox` writes and orders them, `receivers` keeps how far each receiver has come, `delivery` brings them to webhooks
and to a bus, `api` streams them to administrators. Which events there are is a matter of the services: each makes its
own, and makes none of a type that nobody has asked for.
"""
