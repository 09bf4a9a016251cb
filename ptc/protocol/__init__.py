"""The host half of the channel protocol, as pure objects."""
