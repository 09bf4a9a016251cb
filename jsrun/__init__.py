"""The subharness runtime: bundles, doors, guards, fuel, journal and result."""
