Ports of floating IPs lead to ports of fixed addresses, one by one or as ranges. Administrators say which rules new security groups have.
