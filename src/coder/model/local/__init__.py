"""Models on this machine: `fetch.py` gets the weights, `server.py` owns the child process that serves them,
`serve.py` is the program of that child."""
