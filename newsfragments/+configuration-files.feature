`etc/cloudctl.toml` holds every option with its default, `etc/policy.toml` every rule as shipped.
