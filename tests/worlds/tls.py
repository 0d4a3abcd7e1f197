"""Certificates for a broker that speaks TLS, in PEM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority with its certificate in a file.

    Args:
        folder: Gets the files.
        name: Its common name, and the beginning of the files' names.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._build(self._name, self._key.public_key(), is_authority=True)
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(_pem(certificate))

    def issue(self, name: str, *hosts: str, is_expired: bool = False) -> Path:
        """A file with a private key and its certificate, for host names and addresses.

        A file of the same name is replaced.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._build(subject, key.public_key(), *hosts, is_expired=is_expired)
        file = self._folder / f"{name}.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file.write_bytes(secret + _pem(certificate))
        return file

    def _build(
        self,
        subject: x509.Name,
        key: object,
        *hosts: str,
        is_authority: bool = False,
        is_expired: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC) - timedelta(days=7 if is_expired else 0)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
