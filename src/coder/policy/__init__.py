"""Permissions: presets, operating modes, analysis of shell lines, workspace paths, the sandbox, secrets.

Decides and explains; never runs a tool and never prompts.
"""
