"""What stands between the cloud and machines, disks and wires.

`specs` are the values in and out, `errors` what can go wrong, `interfaces` what a driver must do, `maker` and `loader`
how a configured name becomes a driver, `boundary` and `threaded` how a driver of any style is called. `fake/` keeps
everything in memory or in small files. How to write one: docs/driver guide; the suites in `cloudctl.testing` judge it.
"""
