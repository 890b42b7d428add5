The audit looks at networks, too: what a network driver lacks, or what others have changed of what it made (`ovn` sees
that), is made so again by tasks; what nobody knows is reported.
