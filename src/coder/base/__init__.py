"""JSON-RPC 2.0 for those who speak it here (MCP's client, ACP's server): requests to their answers, and the
lines that carry them. What the messages mean is the business of the room that uses it."""
