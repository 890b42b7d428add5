The fencer `nbd` withdraws the volumes of all backends `nbd` of the cloud, or of those that `backends` names, and proves nothing until each of them is withdrawn.
