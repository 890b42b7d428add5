Administrators give a VLAN network another `provider:segmentation_id` while it has no ports; what a PUT repeats of a
network's wire is taken as it is.
