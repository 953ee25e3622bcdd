"""One module per command; `tui.main` lists them."""
