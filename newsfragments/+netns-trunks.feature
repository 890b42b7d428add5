The network driver `netns` carries trunks: subports go through the guest's tap by VLAN ids, on Linux 6.6 and later.
