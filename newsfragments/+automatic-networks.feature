A server with `networks: auto` makes its project the automatic topology where it has no network. Compute lists version
2.0, whose paths (`/compute/v2/…`) are those of 2.1 without microversions.
