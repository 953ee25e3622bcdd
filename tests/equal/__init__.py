"""Programs whose state, errors or surroundings a compiler can get wrong, one module per class of defect, each held to eager."""
