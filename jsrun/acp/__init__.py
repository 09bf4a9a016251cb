"""`jsrun acp`: a bundle, or the agent, served to any client that speaks the Agent Client Protocol.

The only place where `jsrun`, `jsrun.agent` and the protocol's library (extra `acp`) meet. One run of a bundle, or one
turn of the agent, answers one prompt; what happens meanwhile goes to the client as updates.
https://agentclientprotocol.com
"""
