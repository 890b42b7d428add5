Tokens are validated and issued with a third of the work: a known one asks the database nothing, and catalogs are kept until a
service or an endpoint changes.
