"""Test kit for plugs. See README.md of `jsrun.plugs`."""
