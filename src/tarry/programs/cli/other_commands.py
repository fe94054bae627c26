"""Commands and options of other programs, and former ones: an error names tarry's word for each."""

from __future__ import annotations

COMMANDS = {
    word.replace(":", " "): command
    for command, words in {
        "delete TOPIC ID": "cancel revoke remove rm del discard",
        "kick TOPIC ID": "retry requeue redrive",
        "dead TOPIC": "failed failures errors dlq",
        "list TOPIC": "jobs tasks ls show inspect",
        "topics": "queues tubes",
        "stats": "status info",
        "add TOPIC BODY": "push put send enqueue publish call",
        "pop TOPIC": "reserve receive consume fetch",
        "finish TOPIC ID RECEIPT": "ack done",
        "release TOPIC ID RECEIPT": "nack reject",
        "configure TOPIC": "limit rate settings set",
        "purge TOPIC": "flush clear empty drain",
        "worker MODULE:NAME": "run start work consumer",
        "schedule": "schedules cron beat periodic",
        "serve": "server dashboard web ui http",
        "top": "monitor events watch",
        "workers": "ps",
        "doctor": "ping health",
        "schedule get TOPIC ID": "schedule:show",
        "delayed-queue stats QUEUE": "delayed-queue:size",
        "delayed-queue migrate QUEUE TOPIC": "move-to-topic",
        "map-cache stats MAP": "map-cache:size",
        "map-cache delete MAP KEY": "map-cache:remove",
        "lock get LOCK": "lock:show",
        "guarded-queue stats QUEUE": "guarded-queue:size",
        "guarded-queue poll QUEUE": "guarded-queue:pop",
    }.items()
    for word in words.split()
}
"""Commands that others have, and what ``tarry`` calls them; those of a noun after it."""
OPTIONS = {
    f"{command} {option}": word
    for word, options in {
        "--limit": "pop -n, guarded-queue poll --count",
        "--duration": "pause --for",
        "--keep-dead": "configure --keep",
        "--max-lateness": "add --expires, configure --latest",
        "--keep-moving": "delayed-queue move --keep",
        "--other-namespace": "serve --also, doctor --also",
        "--delayed-queue": "serve --queue",
        "--max-request-body": "serve --max-request",
        "--max-jobs": "doctor --most-jobs",
        "--max-mb": "doctor --most-mb",
        "tarry purge TOPIC --state dead": "delete --state, delete --limit, delete --dry-run",
        "--all, for all dead jobs": "kick --state",
    }.items()
    for command, _, option in (one.rpartition(" ") for one in options.split(", "))
}
"""Options that a user may look for, with their command, and what ``tarry`` calls them."""


def word_for_command(typed: str) -> str | None:
    """Translates a command, or an option after its command, into the word of ``tarry``."""
    return f"tarry {COMMANDS[typed]}" if typed in COMMANDS else OPTIONS.get(typed)
