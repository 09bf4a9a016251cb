"""The engines every test of running programs is repeated for."""

ENGINES = ["quickjs"]
