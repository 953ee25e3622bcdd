"""What there is to see of a run, as plain data and as lines of text. Knows the model of a run; nothing of Typer or Textual."""
