Passcodes (TOTP) are a method of login, and `multi_factor_auth_rules` of users are enforced, with receipts for what was
proved already.
