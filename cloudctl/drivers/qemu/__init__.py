"""Guests as QEMU processes on this machine, one process a guest."""
