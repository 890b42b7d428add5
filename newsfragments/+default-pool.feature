A new cloud has a default subnet pool (`pool_cidr`), so that a project without a network is given one unasked. VXLAN
networks have low numbers as long as there are any.
