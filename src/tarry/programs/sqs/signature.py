"""AWS Signature Version 4: whether a request was signed with a secret key, and not long ago.

Authorization: AWS4-HMAC-SHA256 Credential=ID/20261122/eu-central-1/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=…
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from urllib.parse import parse_qsl, quote

from tarry.programs.sqs.faults import SqsError

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "sqs"
MOST_SKEW_S = 900
"""How far the clocks of client and service may differ."""
MUST_SIGN = frozenset({"host", "x-amz-date"})
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method."
)


@dataclass(frozen=True, slots=True)
class Signature:
    """The parsed ``Authorization`` header."""

    access_key: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    digest: str

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The signed parts of a request."""

    method: str
    path: str
    """As it was sent."""
    query: str
    headers: Mapping[bytes, bytes]
    body: bytes


def parse(header: str) -> Signature:
    """Parses the header. Raises ``SqsError``."""
    algorithm, _, rest = header.partition(" ")
    if not header:
        raise SqsError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
    parts = [part.strip().partition("=") for part in rest.split(",")]
    fields = {name: value for name, _, value in parts}
    scope = fields.get("Credential", "").rsplit("/", 4)
    names = tuple(name for name in fields.get("SignedHeaders", "").split(";") if name)
    if algorithm != ALGORITHM or len(scope) != 5 or scope[4] != "aws4_request" or "Signature" not in fields:
        raise SqsError("IncompleteSignature", "Authorization header requires Credential, SignedHeaders and Signature.")
    if len(set(names)) != len(names):  # one header, named a thousand times, would be hashed a thousand times
        raise SqsError("IncompleteSignature", "SignedHeaders names a header twice.")
    if not set(names) >= MUST_SIGN:
        raise SqsError("SignatureDoesNotMatch", "'Host' and 'X-Amz-Date' must be signed headers.", 403)
    return Signature(scope[0], scope[1], scope[2], scope[3], names, fields["Signature"])


def check_scope(signature: Signature, headers: Mapping[bytes, bytes], now: float) -> None:
    """Checks what the head alone tells, before the body is read: the credential's service and date, and when the request was
    signed. Raises ``SqsError``."""
    if b"x-amz-target" in headers and "x-amz-target" not in signature.signed_headers:  # it names the operation
        raise SqsError("SignatureDoesNotMatch", "'X-Amz-Target' must be a signed header.", 403)
    if signature.service != SERVICE:
        told = f"Credential should be scoped to correct service: '{SERVICE}'."
        raise SqsError("SignatureDoesNotMatch", told, 403)
    stamp = _stamp(headers)
    try:
        signed_at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise SqsError("IncompleteSignature", f"Date must be in ISO-8601 'basic format'. Got '{stamp[:40]}'.") from None
    if signed_at.strftime("%Y%m%d") != signature.date:
        raise SqsError(
            "SignatureDoesNotMatch", "Date in Credential scope does not match YYYYMMDD from X-Amz-Date.", 403
        )
    if abs(signed_at.timestamp() - now) > MOST_SKEW_S:
        shown = datetime.fromtimestamp(now, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        raise SqsError(
            "SignatureDoesNotMatch", f"Signature expired: {stamp} and {shown} differ by more than 15 min.", 403
        )


def check(signature: Signature, request: SignedRequest, key: bytes) -> None:
    """Raises ``SqsError`` if the request was not signed with the key: ``AWS4`` and a secret key, or their SHA-256 if they are more than
    64 bytes, which is the same to HMAC."""
    right = sign(signature, _stamp(request.headers), request, key)
    if not hmac.compare_digest(right.encode(), signature.digest.encode()):
        raise SqsError("SignatureDoesNotMatch", _MISMATCH, 403)


def _stamp(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"x-amz-date", b"").decode("latin-1")


def sign(signature: Signature, stamp: str, request: SignedRequest, key: bytes) -> str:
    """The signature that the request should have, in hexadecimal digits."""
    hashed = sha256(canonical_request(signature, request).encode()).hexdigest()
    for part in (signature.date, signature.region, signature.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, f"{ALGORITHM}\n{stamp}\n{signature.scope}\n{hashed}".encode(), "sha256").hex()


def canonical_request(signature: Signature, request: SignedRequest) -> str:
    lines = [request.method, quote(request.path or "/", safe="/~"), _canonical_query(request.query)]
    for name in signature.signed_headers:
        value = request.headers.get(name.encode("latin-1", "replace"), b"").decode("latin-1")
        lines.append(f"{name}:{' '.join(value.split())}")
    return "\n".join([*lines, "", ";".join(signature.signed_headers), sha256(request.body).hexdigest()])


def _canonical_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return "&".join(sorted(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in pairs))
