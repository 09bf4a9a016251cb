"""Everything of ours that lives inside root, image and run."""
