Networks with `pvlan`: each port is promiscuous, isolated, or of a community (`pvlan_type`, `pvlan_community`; extension `pvlan`). The driver `fake` promises it (`IPrivateVlans`).
