"""Tables in columns: Parquet, on local disks and remote filesystems."""
