Guests find their metadata, keys and user data in the EC2 and OpenStack trees, on a config drive or at 169.254.169.254,
with drivers that can do so. `GET /servers/{id}/os-server-password` shows the password that a guest has told there.
