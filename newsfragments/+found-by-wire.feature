A rule of its own, `network:networks:find:provider`, says who may filter networks by `provider:*`; with
`etc/policy-openstack.toml` members may, as with neutron.
