Domains have a configuration: `/v3/domains/{id}/config` keeps what clients write there, and shows no passwords.
