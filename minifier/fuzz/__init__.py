"""Random programs as a tool: drawn by number, held to eager, their failures told apart, made small and handed over as certified repros."""
