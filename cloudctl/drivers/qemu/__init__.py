"""Guests as QEMU processes on this machine, one process per guest."""
