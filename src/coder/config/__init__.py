"""What the person, the project, the environment and the command line have set, as one `Config`.

Layers are read, checked and merged here, and what a project may not set for itself is taken out.
This room says what is configured; what that permits is the policy's business. It is imported at
every start, so it stays light: a module here imports the rare paths only when they are taken.
It may look at `coder.protocol` and `coder.texts` only.
"""
