`[admission] rates = true` limits requests of one project and of one address by token buckets: over them the answer is 429
with `Retry-After`, so that nobody starves the others.
