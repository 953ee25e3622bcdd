"""Programs after public reports, or of our own, on which torch's own compiler differs from eager or fails: a script and a manifest each."""
