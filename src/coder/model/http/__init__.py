"""A lean HTTP/1.1 client with server-sent events: what a model request needs."""
