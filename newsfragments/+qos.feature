Network QoS as far as bandwidth limits: `/networking/v2.0/qos/policies` with `bandwidth_limit_rules`, and
`qos_policy_id` of networks and ports. A changed rule reaches the ports that are plugged at once. The network driver
`netns` takes limits of any size, now.
