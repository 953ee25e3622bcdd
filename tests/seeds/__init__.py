"""The programs of the tutorials this project starts from."""
