"""Secrets: ciphers, derived passwords, password hashes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import bcrypt

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.encoding import decode_base64, encode_base64
from kanister_py.gotemplate.values import from_bytes, to_bytes

_BLOCK = 16


def _key_of(password: str) -> bytes:
    """Return the password as a key of 32 bytes, truncated or padded with zeros."""
    return to_bytes(password)[:32].ljust(32, b"\0")


def _cipher(password: str, start: bytes) -> Any:
    # Imported on use: the library is large, and few templates encrypt.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(_key_of(password)), modes.CBC(start))


@go_function("func(string, string) (string, error)", context=True)
def encrypt_aes(context: Context, password: str, text: str) -> str:
    if not text:
        return ""
    start = context.effects.random_bytes(_BLOCK)
    data = to_bytes(text)
    padding = _BLOCK - len(data) % _BLOCK
    encryptor = _cipher(password, start).encryptor()
    hidden = encryptor.update(data + bytes([padding]) * padding) + encryptor.finalize()
    return encode_base64(start + hidden)


@go_function("func(string, string) (string, error)")
def decrypt_aes(password: str, text: str) -> str:
    if not text:
        return ""
    data = decode_base64(text)
    if len(data) < _BLOCK:
        room = len(to_bytes(text)) // 4 * 3
        raise GoError(f"runtime error: slice bounds out of range [:16] with capacity {room}")
    start, hidden = data[:_BLOCK], data[_BLOCK:]
    if len(hidden) % _BLOCK:
        raise GoError("crypto/cipher: input not full blocks")
    if not hidden:
        raise GoError("runtime error: index out of range [-1]")
    decryptor = _cipher(password, start).decryptor()
    shown = decryptor.update(hidden) + decryptor.finalize()
    # As in sprig the padding is not checked: a wrong password may give nonsense.
    length = len(shown) - shown[-1]
    if length < 0:
        raise GoError(f"runtime error: slice bounds out of range [:{length}]")
    return from_bytes(shown[:length])


def not_allowed(usage: str) -> GoError:
    """Return Kanister's error for a function that does not comply with FIPS."""
    return GoError(
        f"sprig usage of '{usage}' is not allowed by kanister as it is not FIPS compatible"
    )


def _forbidden(name: str, params: str) -> Function:
    def refuse(*_: object) -> str:
        raise not_allowed(name)

    return go_function(f"func({params}) (string, error)")(refuse)


_DERIVE = "uint32, string, string, string, string"


# Master Password, version 1: patterns of each kind of password, and their characters.
_FORMS: dict[str, Sequence[str]] = {
    "maximum": ("anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"),
    "long": [
        "CvcvnoCvcvCvcv",
        "CvcvCvcvnoCvcv",
        "CvcvCvcvCvcvno",
        "CvccnoCvcvCvcv",
        "CvccCvcvnoCvcv",
        "CvccCvcvCvcvno",
        "CvcvnoCvccCvcv",
        "CvcvCvccnoCvcv",
        "CvcvCvccCvcvno",
        "CvcvnoCvcvCvcc",
        "CvcvCvcvnoCvcc",
        "CvcvCvcvCvccno",
        "CvccnoCvccCvcv",
        "CvccCvccnoCvcv",
        "CvccCvccCvcvno",
        "CvcvnoCvccCvcc",
        "CvcvCvccnoCvcc",
        "CvcvCvccCvccno",
        "CvccnoCvcvCvcc",
        "CvccCvcvnoCvcc",
        "CvccCvcvCvccno",
    ],
    "medium": ("CvcnoCvc", "CvcCvcno"),
    "short": ("Cvcn",),
    "basic": ("aaanaaan", "aannaaan", "aaannaaa"),
    "pin": ("nnnn",),
}
_CHARACTERS = {
    "V": "AEIOU",
    "C": "BCDFGHJKLMNPQRSTVWXYZ",
    "v": "aeiou",
    "c": "bcdfghjklmnpqrstvwxyz",
    "A": "AEIOUBCDFGHJKLMNPQRSTVWXYZ",
    "a": "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
    "n": "0123456789",
    "o": "@&%?,=[]_:-+*$#!'^~;()/.",
    "x": "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
}
_SCOPE = b"com.lyndir.masterpassword"


@go_function(f"func({_DERIVE}) string")
def derive_password(counter: int, kind: str, password: str, user: str, site: str) -> str:
    forms = _FORMS.get(kind)
    if forms is None:
        return f"cannot find password template {kind}"
    key = hashlib.scrypt(
        to_bytes(password),
        salt=_SCOPE + _counted(user),
        n=32768,
        r=8,
        p=2,
        dklen=64,
        maxmem=128 * 1024 * 1024,
    )
    message = _SCOPE + _counted(site) + counter.to_bytes(4, "big")
    seed = hmac.new(key, message, hashlib.sha256).digest()
    form = forms[seed[0] % len(forms)]
    return "".join(
        _CHARACTERS[letter][seed[position] % len(_CHARACTERS[letter])]
        for position, letter in enumerate(form, start=1)
    )


def _counted(text: str) -> bytes:
    data = to_bytes(text)
    return len(data).to_bytes(4, "big") + data


_BCRYPT_ALPHABET = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
)


def _bcrypt(context: Context, password: str) -> str:
    data = to_bytes(password)
    if len(data) > 72:
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    salt = encode_base64(context.effects.random_bytes(16)).translate(_BCRYPT_ALPHABET)
    return (
        bcrypt.hashpw(data, f"$2b$10${salt[:22]}".encode())
        .decode("ascii")
        .replace("$2b$", "$2a$", 1)
    )


bcrypt_hash = go_function("func(string) string", context=True)(_bcrypt)


@go_function("func(string, string) string", context=True)
def htpasswd(context: Context, user: str, password: str) -> str:
    return f"invalid username: {user}" if ":" in user else f"{user}:{_bcrypt(context, password)}"


_COMMON: dict[str, Function] = {"decryptAES": decrypt_aes, "encryptAES": encrypt_aes}

OF_BLUEPRINTS = {
    **_COMMON,
    "derivePassword": _forbidden("derivePassword", _DERIVE),
    # Kanister forbids these functions of sprig 3 by name.
    "bcrypt": _forbidden("bcrypt", "string"),
    "htpasswd": _forbidden("htpasswd", "string, string"),
}
OF_COMPOSITIONS = {
    **_COMMON,
    "derivePassword": derive_password,
    "bcrypt": bcrypt_hash,
    "htpasswd": htpasswd,
}
