Quotas cost the same in a project with fifty thousand servers as in one with ten: what a project has is kept as a total
by the database, and checked by the audit.
