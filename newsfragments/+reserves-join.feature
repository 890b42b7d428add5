With `[instance_ha] add_reserved_host_to_aggregate` a reserve joins the aggregates of the host in whose place it comes, and leaves them again if it gets no guest.
