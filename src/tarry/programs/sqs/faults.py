"""Errors, with AWS's names, codes and words."""

from __future__ import annotations

from typing import Any

from tarry import errors
from tarry.programs.serving import problems

_PREFIX = "AWS.SimpleQueueService."
_CODES = {
    "QueueDoesNotExist": _PREFIX + "NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    **{
        name: _PREFIX + name
        for name in (
            "BatchEntryIdsNotDistinct",
            "BatchRequestTooLong",
            "EmptyBatchRequest",
            "InvalidBatchEntryId",
            "MessageNotInflight",
            "TooManyEntriesInBatchRequest",
            "UnsupportedOperation",
        )
    },
}
"""The codes of the query protocol; the others are the names."""


class SqsError(Exception):
    """An error as AWS names it."""

    def __init__(self, name: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.status = status

    @property
    def code(self) -> str:
        """The code in the query protocol, which the SDKs show in both."""
        return _CODES.get(self.name, self.name)

    @property
    def kind(self) -> str:
        return "Sender" if self.status < 500 else "Receiver"

    def entry(self, id: str) -> dict[str, Any]:
        """The error of one entry of a batch."""
        is_senders = self.status < 500 and self.name != "RequestThrottled"  # the others of its batch may have gone in
        return {"Id": id, "SenderFault": is_senders, "Code": self.code, "Message": self.message}


def invalid(parameter: str, value: object, reason: str) -> SqsError:
    return SqsError(
        "InvalidParameterValue", f"Value {str(value)[:200]} for parameter {parameter} is invalid. Reason: {reason}"
    )


def bad_handle() -> SqsError:
    return SqsError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")


def bad_handle_of_entry(handle: str) -> SqsError:
    """As AWS names it in a batch."""
    told = f'The input receipt handle "{handle[:200]}" is not a valid receipt handle.'
    return SqsError("ReceiptHandleIsInvalid", told)


def too_long(action: str, size: int, most: int, *, is_counted: bool = True) -> SqsError:
    """The fault for this many bytes, or more if it is not counted to its end, where an operation takes less."""
    if action == "SendMessage":
        told = f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes."
        return SqsError("InvalidParameterValue", told)
    if action == "SendMessageBatch":
        sent = f"{size}" if is_counted else f"at least {size}"
        told = f"Batch requests cannot be longer than {most} bytes. You have sent {sent} bytes."
        return SqsError("BatchRequestTooLong", told)
    return SqsError("RequestEntityTooLarge", f"The request has more than {most} bytes of messages.", 413)


def unknown_queue() -> SqsError:
    return SqsError("QueueDoesNotExist", "The specified queue does not exist.")


def fault_of(raised: Exception) -> SqsError:
    """Any exception as an error of AWS."""
    if isinstance(raised, SqsError):
        return raised
    problem, _ = problems.problem_of(raised)
    if isinstance(raised, (problems.TooMany, errors.TopicFull)):
        return SqsError("RequestThrottled", problem.detail)
    if isinstance(raised, problems.NoToken):
        return SqsError("InvalidClientTokenId", problem.detail, 403)
    if isinstance(raised, problems.Forbidden):
        return SqsError("AccessDenied", problem.detail, 403)
    if problem.status >= 500:
        name = "ServiceUnavailable" if problem.status == 503 else "InternalFailure"
        return SqsError(name, problem.detail, problem.status)
    if isinstance(raised, errors.BodyError):
        return SqsError("InternalFailure", problem.detail, 500)
    return SqsError("InvalidParameterValue", problem.detail, problem.status)
