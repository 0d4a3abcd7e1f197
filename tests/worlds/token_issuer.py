"""An OAuth 2.0 token endpoint that signs tokens (RS256) for a broker, and its public key."""

from __future__ import annotations

import json
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from devstack.process import HOST
from tests.worlds.http_stub import HttpStub, json_answer

CLIENT, SECRET = "tideline", "client-and-secret"
AUDIENCE = "kafka"


class TokenIssuer:
    """Gives a token to the client that knows the secret.

    Args:
        certificate: File with certificate and key of the endpoint; None for plain HTTP.

    Attributes:
        secret: What the client has to know now.
        lifetime_seconds: Of each token; below 0, tokens have expired when they are given.
        is_forged: Whether tokens are signed by another key than the broker knows.
        subject: The principal's name.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.secret = SECRET
        self.lifetime_seconds = 300.0
        self.is_forged = False
        self.subject = CLIENT
        self._key, self._other = _keys()
        self.stub = HttpStub(certificate)
        self.stub.answer = self.answer
        self._scheme = "http" if certificate is None else "https"

    @property
    def url(self) -> str:
        """Of the token endpoint."""
        return f"{self._scheme}://{HOST}:{self.stub.port}/token"

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return len(self.stub.asked)

    def jwks(self) -> str:
        """The public key, as a JSON Web Key Set."""
        public = self._key.public_key().public_numbers()
        numbers = {"n": public.n, "e": public.e}
        encoded = {
            name: _base64(number.to_bytes((number.bit_length() + 7) // 8))
            for name, number in numbers.items()
        }
        return json.dumps(
            {"keys": [{"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", **encoded}]}
        )

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        given = (request.headers.get("Authorization") or "").removeprefix("Basic ")
        if b64decode(given).decode() != f"{CLIENT}:{self.secret}":
            json_answer({"error": "invalid_client"}, 401)(request)
            return
        told = {"access_token": self.token(), "expires_in": int(self.lifetime_seconds)}
        json_answer({**told, "token_type": "Bearer"})(request)

    def token(self) -> str:
        """A new token."""
        now = time.time()
        ends = now + self.lifetime_seconds
        claims = {
            "sub": self.subject,
            "aud": AUDIENCE,
            "iss": "tests",
            "iat": int(min(now, ends - 1)),
            "exp": int(ends),
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        key = self._other if self.is_forged else self._key
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def close(self) -> None:
        """Stop serving."""
        self.stub.close()


@contextmanager
def token_issuer(certificate: Path | None = None) -> Iterator[TokenIssuer]:
    """Start one, and stop it at the end."""
    issuer = TokenIssuer(certificate)
    try:
        yield issuer
    finally:
        issuer.close()


@cache
def _keys() -> tuple[rsa.RSAPrivateKey, rsa.RSAPrivateKey]:
    """Two for all issuers: making one takes longer than most tests."""
    return rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 2048)


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
