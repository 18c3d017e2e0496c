"""Files that own their place: locks, space on the disk, folders of the state of rows."""
