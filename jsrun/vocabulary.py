"""The global names a program finds, and those it might expect to find, with what to use instead."""

from collections.abc import Mapping

from jsrun.facts import DOORS
from ptc.namespaces import GLOBALS

PROVIDED = GLOBALS | frozenset(DOORS) | {"DoorError", "input"}
"""Every name a program can use without declaring it."""

_NETWORK = "Name a tool on the whitelist and call it with tool()."
_TIMERS = "There are no timers: a run waits for nothing but doors."
_SETTINGS = "Pass what it needs in `input`."
_MODULES = "Write everything in one file; the world is reached through the doors."
_PLAIN = "Write it in plain JavaScript, or let a tool do it."
_PERSON = 'Ask a person with ask("…").'
_STATE = "Keep notes with remember() and recall()."
_THREADS = "Run doors side by side with Promise.all in an async program."
_GLOBAL = "Use globalThis."

UNAVAILABLE: Mapping[str, str] = {
    **dict.fromkeys(("require", "module", "exports"), _MODULES),
    **dict.fromkeys(("process", "Deno", "Bun", "__dirname", "__filename", "scriptArgs", "navigator"), _SETTINGS),
    **dict.fromkeys(("global", "self", "window"), _GLOBAL),
    **dict.fromkeys(("document", "location", "std", "os"), _PLAIN),
    **dict.fromkeys(("fetch", "XMLHttpRequest", "WebSocket", "EventSource"), _NETWORK),
    **dict.fromkeys(
        ("setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "clearImmediate"), _TIMERS
    ),
    **dict.fromkeys(("Buffer", "TextEncoder", "TextDecoder", "URL", "URLSearchParams", "atob", "btoa"), _PLAIN),
    **dict.fromkeys(("escape", "unescape"), "Use encodeURIComponent and decodeURIComponent."),
    "crypto": "Use Math.random(), which is seeded by the run.",
    "structuredClone": "Use JSON.parse(JSON.stringify(value)).",
    **dict.fromkeys(("Intl", "Temporal"), "Use Date; the time zone is UTC and the locale fixed."),
    **dict.fromkeys(("WebAssembly", "WeakRef", "FinalizationRegistry"), _PLAIN),
    **dict.fromkeys(("Worker", "SharedArrayBuffer", "Atomics"), _THREADS),
    **dict.fromkeys(("localStorage", "sessionStorage"), _STATE),
    **dict.fromkeys(("alert", "confirm", "prompt"), _PERSON),
    "print": "Use log() for a status, or console.log().",
}
"""Names of other worlds that are absent here, each with what to do instead."""
