"""Middleware around an agent process that speaks the Agent Client Protocol. See README.md beside this file."""
