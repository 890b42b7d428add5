`etc/policy-openstack.toml` opens what cloudctl closes and OpenStack does not, for tools that go by OpenStack's defaults.
