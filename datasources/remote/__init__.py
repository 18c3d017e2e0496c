"""Files on other machines, by URL: HDFS, WebHDFS, S3 and whatever fsspec knows."""
