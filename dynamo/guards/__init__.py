"""What must hold for a compiled entry to be reused: records in (`kinds`), C guard tree out (`build`); and words for what failed."""
