"""A throw-away certificate for localhost that is its own authority, made by openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate and its key, written into a folder; skip the test without openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl found; install it to test connections by TLS")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, "req", "-x509", *kind, *names, *files], check=True, capture_output=True)  # noqa: S603
    return certificate, key
