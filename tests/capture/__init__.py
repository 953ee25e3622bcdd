"""Cases in the capture test language."""
