"""Lock files, files with reserved disk space, and folders for the state of rows."""
