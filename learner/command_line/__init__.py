"""The command `learn` and its subcommands."""
