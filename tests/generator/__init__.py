"""Random programs, compared with eager."""
