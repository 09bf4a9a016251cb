"""Fuzzing the bridge: see README.md beside this file."""
