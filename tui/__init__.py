"""The command line and the terminal interface. Views only: everything shown comes from the record of a run."""
