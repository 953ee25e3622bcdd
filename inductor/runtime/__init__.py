"""Building, caching, loading and running generated code."""
