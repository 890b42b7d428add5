Volume drivers `qcow2` (files of this machine) and `nbd` (a storage daemon that any host can reach) keep real bytes.
