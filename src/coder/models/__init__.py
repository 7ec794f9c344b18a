"""Who answers: the `ChatModel` protocol, one file per wire, the dialects, the scripted model.

Knows HTTP and the providers' JSON; knows nothing of tools, policy, sessions or screens.
"""
