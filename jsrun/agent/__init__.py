"""The generalist agent loop: it takes the long way. See README.md beside this file."""
