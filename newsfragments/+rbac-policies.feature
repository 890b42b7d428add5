RBAC policies: networks, QoS policies and security groups are shared with single projects, and external networks with whom their administrator chooses. `shared` is computed from them.
