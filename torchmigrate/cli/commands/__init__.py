"""The commands, as typer reads them."""
