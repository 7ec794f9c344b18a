"""Doors for programs: the Agent Client Protocol on stdio, which editors speak (`coder acp`).

Like every front end it sends ops and reads events. It may not reach into the engine and knows no
terminal.
"""
