"""The identity API: its resources, versions and faults. Reference: identity.md, discovery.md."""
