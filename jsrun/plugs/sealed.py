"""Encrypted state: AES-256-GCM around the values of another store, and the key for it."""

import base64
import binascii
import contextlib
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jsrun.plugs.errors import MissingExtra, StateCorrupt, StateUnavailable
from jsrun.plugs.persist import StateStore

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
# A blob is: version, id of the key, nonce, then ciphertext with its tag of 16 bytes.
_VERSION: Final = b"\x01"
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_HEAD_BYTES: Final = len(_VERSION) + _ID_BYTES + _NONCE_BYTES


class EncryptedStore:
    """Encrypts what `inner` stores: the first key encrypts, any key decrypts.

    A value is bound to its session and plug id, so one that was moved cannot be read. Whatever cannot be decrypted
    raises StateCorrupt and never counts as absent. MissingExtra without the library; ValueError for a key that has not
    32 bytes, or for no key.
    """

    def __init__(self, inner: StateStore, keys: Sequence[bytes]) -> None:
        self._inner = inner
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"Encryption needs at least one key, each of {KEY_BYTES} bytes.")
        self._ciphers = [(hashlib.sha256(key).digest()[:_ID_BYTES], _cipher(key)) for key in keys]

    async def get(self, session: str, plug: str) -> bytes | None:
        """See StateStore."""
        blob = await self._inner.get(session, plug)
        return None if blob is None else self._opened(session, plug, blob)

    async def put(self, session: str, plug: str, value: bytes) -> None:
        """See StateStore."""
        key_id, cipher = self._ciphers[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = cipher.encrypt(nonce, value, _place(session, plug))
        await self._inner.put(session, plug, _VERSION + key_id + nonce + sealed)

    async def delete(self, session: str, plug: str) -> None:
        """See StateStore."""
        await self._inner.delete(session, plug)

    async def delete_session(self, session: str) -> None:
        """See StateStore."""
        await self._inner.delete_session(session)

    def _opened(self, session: str, plug: str, blob: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        if blob[:1] != _VERSION or len(blob) < _HEAD_BYTES + _TAG_BYTES:
            raise StateCorrupt(f"The stored state of the plug {plug!r} is not encrypted as it should be.")
        key_id = blob[1 : 1 + _ID_BYTES]
        nonce = blob[1 + _ID_BYTES : _HEAD_BYTES]
        known = [cipher for an_id, cipher in self._ciphers if an_id == key_id]
        for cipher in known:
            with contextlib.suppress(InvalidTag):
                return cipher.decrypt(nonce, blob[_HEAD_BYTES:], _place(session, plug))
        reason = "is damaged or was moved" if known else "was encrypted with another key"
        raise StateCorrupt(f"The stored state of the plug {plug!r} {reason}.")


def decode_key(text: str, where: str) -> bytes:
    """A key from base64 text; ValueError, naming `where` it came from, if that is not 32 bytes."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"{where}: the key for the state must be {KEY_BYTES} bytes in base64.")
    return key


def key_from_file(path: Path, *, create: bool = False) -> bytes:
    """The key in a file; `create` makes the file once, with mode 0600 and a new key.

    StateUnavailable if it cannot be read or made, ValueError if it holds no key.
    """
    try:
        if create and not path.exists():
            _make_key(path)
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StateUnavailable(f"{path}: the key for the state cannot be read or made: {error}") from None
    return decode_key(text, str(path))


def _make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, and never replaces the key another process made in this moment.
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra("state") from None
    return AESGCM(key)


def _place(session: str, plug: str) -> bytes:
    # With the length in front, no two pairs give the same bytes.
    return f"{len(session)}:{session}:{plug}".encode()
