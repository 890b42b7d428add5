QoS policies hold DSCP markings, minimum bandwidths, packet rate limits and minimum packet rates, where the network driver obeys them; ports tell what they ask of their host.
