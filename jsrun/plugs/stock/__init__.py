"""Plugs that come with the package, known to a setup by their names.

| name | does |
|---|---|
| `env` | sets and removes variables of the agent |
| `redact` | masks secrets in what the agent says, also when they are split over chunks |
| `permissions` | answers the agent's questions for permission by rules |
| `transcript` | writes one JSON line per message to a file |
| `preamble` | puts a text before the first prompt of a session, or before every one |
| `turn-limit` | limits the turns of a session, and the tool calls and seconds of a turn |
"""
