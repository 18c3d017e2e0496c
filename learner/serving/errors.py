"""Errors of requests, with the status that HTTP has for them."""


class RequestError(Exception):
    """A request that is not answered; `str(error)` is the message for the client.

    status: of HTTP, 400 to 599.
    """

    def __init__(self, status: int, message: str) -> None:
        """Keep the status and the message."""
        super().__init__(message)
        self.status = status
