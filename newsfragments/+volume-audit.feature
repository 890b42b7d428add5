The audit compares volume backends with the database, too: volumes that are too small, or that a host has lost, are
mended; what is missing or unknown is reported.
