"""`cloudctl metadata-proxy`: answers the guests of a host of OVN's at 169.254.169.254.

Each network that has a guest on the host gets a namespace with a link to Open vSwitch, at the network's `localport`:
OVN keeps on its host what is sent to such a port. What a guest asks for is forwarded to a process of the cloud, signed,
with the network and the guest's address (`cloudctl.drivers.forwarded`). The proxy has no key of the northbound database
and none of the cloud's: it learns from the southbound one which guests are here.
"""
