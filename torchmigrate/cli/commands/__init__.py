"""These modules hold the commands, as typer reads them."""
