"""Identity: users, projects, roles and tokens; the catalog; delegation. Reference: identity.md, discovery.md.

* `options.py` what an operator may choose; `tables.py` all tables; `policy.toml` who may call what.
* Tokens: `payload.py` (what a token string holds), `keys.py` (the keys that seal it), `subject.py` (what it stands for,
  read from the database), `tokens.py` (the `Authenticator` of the pipeline), `login.py` (how one is obtained),
  `revocation.py` and `epoch.py` (how one ends early, in every process at once).
* Passwords: `passwords.py` (argon2id in its own threads), `password_rules.py` (expiry, history, lockout).
* Records: `domains.py`, `projects.py`, `users.py`, `groups.py`, `roles.py`, `assignments.py`, `services.py`, ….
* `bootstrap.py` the records that a new cloud begins with.
* `api/` the wire: one file per resource.
"""
