"""The layer between the cloud and machines, disks and networks.

`specs` holds the values that go in and out, `errors` what can go wrong, `interfaces` what a driver must do; `maker` and
`loader` turn a configured name into a driver, `boundary` and `threaded` call drivers of any style. `fake/` keeps
everything in memory or in small files. How to write a driver: docs/driver guide; the suites in `cloudctl.testing` test
it.
"""
