"""Public: what tests of the cloud, of drivers and of applications may use."""
