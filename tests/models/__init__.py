"""Real models, captured whole."""
