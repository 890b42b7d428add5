`[server] roles` chooses what a process does: with PostgreSQL, APIs in one and the engine in another. `cloudctl --version` and `twist cloudctl --version`.
