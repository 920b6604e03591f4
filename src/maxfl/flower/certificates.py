"""Certificates and keys for a federation on one machine: made anew, for days, not for years.

A federation over a network needs others; these are for trying and testing.
"""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS = 7


class Certificates(NamedTuple):
    """Paths of the authority's certificate, the server's, and the server's key."""

    authority: Path
    server: Path
    key: Path


class NodeKey(NamedTuple):
    """Paths of a node's two keys, in OpenSSH's format."""

    private: Path
    public: Path


def make_certificates(folder: Path, host: str) -> Certificates:
    """Make an authority, and a certificate of a server at an IP address, signed by it."""
    folder.mkdir(parents=True)
    root_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    root_name = _name("maxfl, for this run alone")
    root = (
        _builder(root_name, root_name, root_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(root_key, hashes.SHA384())
    )
    names = [x509.IPAddress(ipaddress.ip_address(host)), x509.DNSName("localhost")]
    server = (
        _builder(_name(host), root_name, server_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()),
            critical=False,
        )
        .sign(root_key, hashes.SHA384())
    )
    paths = Certificates(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    pem = serialization.Encoding.PEM
    _write(paths.authority, root.public_bytes(pem))
    _write(paths.server, server.public_bytes(pem))
    plain = serialization.NoEncryption()
    _write(paths.key, server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return paths


def make_node_key(folder: Path, name: str) -> NodeKey:
    """Make a pair of keys by which a node is known."""
    key = ec.generate_private_key(ec.SECP384R1())
    paths = NodeKey(folder / name, folder / f"{name}.pub")
    _write(paths.private, key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    ))  # fmt: skip
    _write(paths.public, key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    ))  # fmt: skip
    return paths


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=not signs, key_cert_sign=signs, crl_sign=signs,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
