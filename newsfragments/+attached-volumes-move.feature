A volume that a server uses can be moved to another backend (`os-migrate_volume`, or `os-retype` with the policy
`on-demand`) where the hypervisor can lead a guest to another place of its volume (`ISwapVolume`; the fake one can). The
server goes on, and its log of actions tells of a `swap_volume`.
