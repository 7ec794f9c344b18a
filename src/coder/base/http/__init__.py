"""An HTTP/1.1 client on asyncio: connections, proxies, TLS, bodies, server-sent events."""
