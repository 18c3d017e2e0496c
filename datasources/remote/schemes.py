"""Find the file system of a URL.

The schemes listed here bypass fsspec's registry, because other packages can change that.
"""

import importlib.util
import os
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pyarrow import fs

from ..errors import DataError
from ..secrets import hidden_url
from .errors import DriverMissingError
from .files import Files
from .filesystems import BUCKETS, ArrowFiles, FsspecFiles, LocalFiles
from .http_files import HttpFiles
from .http_request import Patience
from .native_hdfs import NativeHdfs, settings
from .webhdfs import WebHdfs

HdfsDriver = Literal["libhdfs", "hdfs-native"]
HTTP, WEBHDFS = ("http", "https"), ("webhdfs", "swebhdfs")
SERVERS = HTTP + WEBHDFS  # schemes of URLs that name one
URL_WILD = "*["  # a question mark starts the options of a URL
LOCAL_WILD = "*?["


def resolve(url: str, patience: Patience, hdfs: HdfsDriver | None = None) -> tuple[Files, str, str]:
    """Return a URL's (or path's) file system, path in it, and pattern characters.

    hdfs: the driver that reads hdfs://; None: libhdfs if it is set up, else hdfs-native.
    patience: with all servers but those of libhdfs, which has its own settings.

    Options follow a question mark:
    `s3://bucket/key?region=eu-west-1&endpoint_override=localhost:9000&scheme=http`.

    Raises `DriverMissingError` if no driver is installed, and `DataError` for an invalid URL.
    """
    if "://" not in url:
        return LocalFiles(), url, LOCAL_WILD
    parts = parts_of(url)
    path = unquote(parts.path)
    if parts.scheme == "file":
        return LocalFiles(), path, LOCAL_WILD
    if parts.scheme in HTTP:
        return HttpFiles(patience), url, ""
    if parts.scheme in WEBHDFS:
        user, _, hosts = parts.netloc.rpartition("@")
        user = user or os.environ.get("HADOOP_USER_NAME", "")
        return WebHdfs(parts.scheme, hosts.split(","), user or None, patience), path, URL_WILD
    if parts.scheme == "hdfs":
        return open_hdfs(parts.netloc, hdfs, patience), path, URL_WILD
    if parts.scheme in BUCKETS:
        options = dict(parse_qsl(parts.query))
        filesystem = BUCKETS[parts.scheme](parts.netloc, options, patience)
        return ArrowFiles(filesystem, f"{parts.scheme}://"), parts.netloc + path, URL_WILD
    return *open_fsspec(url, patience), URL_WILD


def parts_of(url: str) -> SplitResult:
    """Return the parts of a URL. Raises `DataError` if it names no server or bucket."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise DataError(f"{hidden_url(url)}: not a URL: {error}.") from error
    if parts.scheme in (*SERVERS, *BUCKETS) and not parts.netloc.rpartition("@")[2]:
        what = "bucket" if parts.scheme in BUCKETS else "server"
        raise DataError(f"{hidden_url(url)}: must name a {what} after ://.")
    return parts


def open_hdfs(authority: str, driver: HdfsDriver | None, patience: Patience) -> Files:
    """Open HDFS with the chosen driver, or with the first available one."""
    native = importlib.util.find_spec("hdfs_native") is not None
    if driver is None:
        driver = "libhdfs" if libhdfs_is_set_up() else "hdfs-native" if native else None
    root = f"hdfs://{authority}"
    if driver == "hdfs-native" and native:
        from hdfs_native import Client

        return NativeHdfs(
            Client(root if authority else None, config=settings(patience)), root, patience
        )
    if driver == "libhdfs" and libhdfs_is_set_up():
        return ArrowFiles(fs.HadoopFileSystem.from_uri(root or "hdfs://default"), hidden_url(root))
    wanted = f"hdfs.driver={driver}: not installed" if driver else "no driver is installed"
    raise DriverMissingError(
        f"{hidden_url(root)}: {wanted}. There are three ways. (1) hdfs-native, without Java: "
        "pip install 'blocklearn[hdfs]'. (2) libhdfs, with Java and Hadoop: set HADOOP_HOME or "
        "ARROW_LIBHDFS_DIR to where libhdfs.so is, JAVA_HOME, and CLASSPATH to what "
        "`hadoop classpath --glob` prints. (3) Nothing to install: webhdfs://namenode:9870/path."
    )


def libhdfs_is_set_up() -> bool:
    """Return whether Arrow can load libhdfs.

    Without the class path a try can end the process.
    """
    homes = [os.environ.get("ARROW_LIBHDFS_DIR"), os.environ.get("HADOOP_HOME")]
    places = [Path(home, *more) for home in homes if home for more in [(), ("lib", "native")]]
    there = any((place / "libhdfs.so").exists() for place in places)
    return there and "hadoop" in os.environ.get("CLASSPATH", "")


def open_fsspec(url: str, patience: Patience) -> tuple[Files, str]:
    """Return fsspec's file system for a URL, and the path in it."""
    scheme = url.partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise DriverMissingError(
            f"{scheme}://: this needs fsspec: pip install 'blocklearn[remote]'."
        ) from error
    try:
        filesystem, path = url_to_fs(url, use_listings_cache=False, skip_instance_cache=False)
    except ImportError as error:
        raise DriverMissingError(f"{scheme}://: {error}") from error
    except ValueError as error:
        raise DataError(f"{scheme}://: unknown file system ({error}).") from error
    return FsspecFiles(filesystem, scheme, patience), str(path)
