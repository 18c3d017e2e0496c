"""Read and write remote files by URL: HDFS, WebHDFS, S3 and the schemes of fsspec."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .errors import DriverMissingError as DriverMissingError
    from .errors import RemoteError as RemoteError
    from .files import Files as Files
    from .files import Status as Status
    from .http_request import PATIENCE as PATIENCE
    from .http_request import Patience as Patience
    from .matching_files import find as find
    from .schemes import HdfsDriver as HdfsDriver
    from .schemes import resolve as resolve
    from .stored_path import Place as Place
    from .stored_path import StoredPath as StoredPath
    from .stored_path import place_of as place_of
    from .writing import get_folder as get_folder
    from .writing import local_name as local_name
    from .writing import put as put
    from .writing import put_folder as put_folder
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
