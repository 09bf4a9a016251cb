"""Finding secrets in text, also in text that comes piece by piece."""

import re
from collections.abc import Iterable, Iterator

# Of a token at the end of a piece, so many characters may be the beginning of what a pattern matches.
TOKEN_CHARS = 256

_LAST_TOKEN = re.compile(r"\S+\Z")


class Masker:
    """Replaces `secrets`, and what matches `patterns`, by `mask`. Empty secrets and empty matches are none."""

    def __init__(self, secrets: Iterable[str], patterns: Iterable[str], mask: str) -> None:
        # The longest first, so that a secret which begins another is not found in its place.
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._mask = mask
        parts = [re.escape(secret) for secret in self._secrets]
        self._literal = re.compile("|".join(parts)) if parts else None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to look for."""
        return not self._secrets and not self._patterns

    def mask(self, text: str) -> str:
        """`text` with everything found in it masked."""
        return self._masked(text, len(text))

    def split(self, text: str) -> tuple[str, str]:
        """`text` as what may be shown, masked, and the tail that may go on to be something to be masked."""
        keep = min(self._begun_secret(text), self._begun_match(text))
        for start, end in self._found(text):
            # What is found before the tail is found, though it reaches into it.
            if start < keep < end:
                keep = end
        return self._masked(text, keep), text[keep:]

    def _masked(self, text: str, end: int) -> str:
        out = []
        at = 0
        for start, stop in self._found(text):
            if stop > end:
                break
            out += [text[at:start], self._mask]
            at = stop
        return "".join([*out, text[at:end]])

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where something is found, from left to right, without overlaps; of those that begin alike, the longest."""
        at = 0
        searches = ([self._literal] if self._literal is not None else []) + self._patterns
        while at < len(text):
            best: tuple[int, int] | None = None
            for search in searches:
                match = search.search(text, at)
                while match is not None and match.end() == match.start():
                    match = search.search(text, match.end() + 1) if match.end() < len(text) else None
                if match is not None and (best is None or (match.start(), -match.end()) < (best[0], -best[1])):
                    best = match.span()
            if best is None:
                return
            yield best
            at = best[1]

    def _begun_secret(self, text: str) -> int:
        """Where the longest tail begins that a secret may begin with; the length of `text` if there is none."""
        longest = len(self._secrets[0]) - 1 if self._secrets else 0
        for start in range(max(0, len(text) - longest), len(text)):
            tail = text[start:]
            if any(len(secret) > len(tail) and secret.startswith(tail) for secret in self._secrets):
                return start
        return len(text)

    def _begun_match(self, text: str) -> int:
        """Where the tail begins that a pattern may go on to match: the last token, or a match that ends the text."""
        if not self._patterns:
            return len(text)
        token = _LAST_TOKEN.search(text, max(0, len(text) - TOKEN_CHARS))
        start = token.start() if token is not None else len(text)
        for found, end in self._found(text):
            if end == len(text) and end - found <= TOKEN_CHARS:
                start = min(start, found)
        return start
