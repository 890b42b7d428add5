Uploads of up to 16 KiB are taken without asking first whether they may come: a small object is stored with one check of
the caller instead of two, and without a file of its own on the way.
