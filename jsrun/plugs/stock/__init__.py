"""Plugs that come with the package, known to a setup by their names.

| name | does | inputs |
|---|---|---|
| `env` | sets and removes variables of the agent | `set`, `unset`, `from_runner`, `optional` |
| `redact` | masks secrets in what the agent says | `secrets`, `env`, `patterns`, `direction`, `mask` |
| `permissions` | answers questions for permission | `rules` (`answer`, `kind`, `path`, `title`), `default` |
| `transcript` | writes one JSON line per message to a file | `path`, `where`, `on_error`, `bodies` |
| `preamble` | puts a text before prompts | `text` or `file`, `where`, `when` |
| `turn-limit` | limits turns, and what is done in one | `max_turns`, `max_tool_calls`, `max_seconds` |
"""
