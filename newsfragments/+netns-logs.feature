The network driver `netns` hands the packets that logs of security groups are about to a group of nflog.
