"""Front ends for programs: the Agent Client Protocol on stdio, for editors (`coder acp`).

Like every front end they send ops and read events; they do not reach into the engine or the terminal.
"""
