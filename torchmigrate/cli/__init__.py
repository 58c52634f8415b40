"""The command line: turn arguments into calls, and errors into messages and exit statuses."""


def main() -> None:
    """Run the command line on `sys.argv`; it ends with SystemExit."""
    from torchmigrate.cli.app import main as run

    run()
