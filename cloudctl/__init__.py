"""cloudctl: an OpenStack-compatible cloud in one Twisted process.

`cloudctl.app.Cloud` is the service to embed; `cloudctl.testing` gives a whole cloud in memory on a Clock.
"""

__version__ = "0.1.0"
