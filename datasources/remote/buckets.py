"""Stores of objects in buckets: S3, Google Cloud Storage, Azure Blob Storage, by Arrow."""

import os
from collections.abc import Callable
from datetime import timedelta

from pyarrow import fs

from ..errors import DataError
from .patience import Patience


def open_s3(bucket: str, options: dict[str, str], patience: Patience) -> fs.FileSystem:
    """S3 and what speaks its protocol; keys come from the environment or the AWS files."""
    check_options("s3", options, {"region", "endpoint_override", "scheme", "anonymous"})
    region = options.get("region") or os.environ.get("AWS_REGION")
    endpoint = options.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL")
    region = region or os.environ.get("AWS_DEFAULT_REGION")
    return fs.S3FileSystem(
        region=region or (None if endpoint else fs.resolve_s3_region(bucket)),
        endpoint_override=options.get("endpoint_override"),
        scheme=options.get("scheme"),
        anonymous=options.get("anonymous", "") == "true",
        connect_timeout=patience.timeout,
        request_timeout=patience.timeout,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=patience.attempts),
    )


def open_google(bucket: str, options: dict[str, str], patience: Patience) -> fs.FileSystem:
    """Google Cloud Storage; keys come from the environment."""
    check_options("gs", options, {"endpoint_override", "scheme", "anonymous"})
    return fs.GcsFileSystem(
        anonymous=options.get("anonymous", "") == "true",
        endpoint_override=options.get("endpoint_override"),
        scheme=options.get("scheme", "https"),
        retry_time_limit=timedelta(seconds=patience.timeout * patience.attempts),
    )


def open_azure(container: str, options: dict[str, str], patience: Patience) -> fs.FileSystem:
    """Azure Blob Storage: `az://container/path`; the account comes from the environment."""
    check_options("az", options, {"account", "authority", "scheme"})
    account = options.get("account") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not account:
        raise DataError(
            f"az://{container}: which account? Set AZURE_STORAGE_ACCOUNT or write "
            f"az://{container}/path?account=NAME."
        )
    return fs.AzureFileSystem(
        account,
        account_key=os.environ.get("AZURE_STORAGE_KEY"),
        blob_storage_authority=options.get("authority"),
        blob_storage_scheme=options.get("scheme"),
        dfs_storage_authority=options.get("authority"),
        dfs_storage_scheme=options.get("scheme"),
    )


BUCKETS: dict[str, Callable[[str, dict[str, str], Patience], fs.FileSystem]] = {
    "s3": open_s3,
    "gs": open_google,
    "az": open_azure,
}


def check_options(scheme: str, options: dict[str, str], known: set[str]) -> None:
    """Options that do nothing are mistakes."""
    for name in options.keys() - known:
        raise DataError(
            f"{scheme}://: option {name!r} is not known; there are {', '.join(sorted(known))}."
        )
