"""Programs that Hypothesis draws: the kinds, and how each is written down."""
