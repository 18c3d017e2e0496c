"""Files that own their place: locks, reserved space, and states of rows and tables in files.

`placed_tables.py` has what tables in files share with those on a device and the host.
"""
