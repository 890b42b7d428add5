A user has at most 100 application credentials, 1000 access rules, 100 other credentials and 100 trusts; `[identity]` has the
numbers (`application_credential_limit`, `access_rule_limit`, `credential_limit`, `trust_limit`; 0 for none).
