"""Data of objects in files of a directory."""
