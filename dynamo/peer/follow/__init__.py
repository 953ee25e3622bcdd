"""A folder put in front of PYTHONPATH, not a package to import: Python runs its `sitecustomize` in processes that a script starts."""
