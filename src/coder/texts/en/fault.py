"""What can go wrong between us and a model's server, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "fault.address": "The model's address cannot be used: {detail}. Check CODER_BASE_URL.",
    "fault.asks_to_wait": "{text} It asks to wait {time}.",
    "fault.broke_off": "The answer of {shown} broke off: {detail}. Try again.",
    "fault.certificate": "its certificate was not accepted ({why})",
    "fault.chunk_line": "a chunk-size line is longer than 16 KB",
    "fault.chunk_long": "a chunk is longer than announced",
    "fault.chunk_size": "a chunk size is not a number",
    "fault.closed_early": "the connection was closed {n} bytes before the end",
    "fault.closed_in_head": "the connection was closed inside the response head",
    "fault.closed_midway": "the connection was closed in the middle of the answer",
    "fault.connect_timeout": "Cannot reach {shown}: {detail}. Check your network and CODER_BASE_URL.",
    "fault.connection_failed": "the connection failed ({why})",
    "fault.content_length": "the content length is not one number",
    "fault.damaged": "the compressed answer is damaged",
    "fault.dns": "Cannot reach {shown}: {detail}. Check CODER_BASE_URL and your network.",
    "fault.event_long": "an event is longer than {limit} bytes",
    "fault.gave_up": "{text} Gave up after {n} attempts.",
    "fault.handshake": "the TLS handshake failed ({why})",
    "fault.head_long": "the response head is longer than 64 KB",
    "fault.header": "The request cannot be sent: {detail}. Check CODER_API_KEY and provider.headers.",
    "fault.header_characters": "the header {name} holds characters that HTTP does not allow",
    "fault.host": "{host} is not a usable host name",
    "fault.host_named_unknown": "the host name {host} could not be found",
    "fault.host_no_address": "the host name {host} has no address",
    "fault.host_unknown": "the host name could not be found",
    "fault.idle": "nothing came for {seconds} seconds",
    "fault.json_cut": "the JSON is not complete",
    "fault.key": "The server at {shown} refused the API key ({status}). Check {names}.",
    "fault.limited": "The server is limiting requests (429). Wait a little and try again.",
    "fault.line_long": "a line of the event stream is longer than {limit} bytes",
    "fault.many_redirects": "more than {n} redirects",
    "fault.minutes": "{n} minutes",
    "fault.no_answer": "no answer came",
    "fault.no_connection": "no connection within {seconds} seconds",
    "fault.no_key": "The server at {shown} wants an API key ({status}), and none is set. Set {names}.",
    "fault.no_model": (
        "{shown} answered with something that is not a model's answer: {said}. Check CODER_BASE_URL."
    ),
    "fault.no_server": "Cannot reach {shown}: {detail}. Is the server running? Check CODER_BASE_URL.",
    "fault.no_tls": "no TLS on that port",
    "fault.not_found": (
        "Not found (404) at {shown}: the model '{model}' or the address. Check CODER_MODEL "
        "and CODER_BASE_URL."
    ),
    "fault.not_http": "what answers there does not speak HTTP/1.1",
    "fault.nothing": "nothing",
    "fault.nowhere": "an unnamed place",
    "fault.port": "port {port} does not exist",
    "fault.proxy": "Cannot reach {shown}: {detail}. Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY.",
    "fault.proxy_refused": "the proxy {proxy} refused the way ({status})",
    "fault.quota": "The account behind the API key has no quota left. Check its plan and billing.",
    "fault.quoted": "{text} The server says: {said}",
    "fault.redirect": "{detail}. Set CODER_BASE_URL to the address it should be.",
    "fault.redirect_nowhere": "a redirect ({status}) to nowhere",
    "fault.redirect_to": "The address {address} redirects ({status}) to {where}",
    "fault.redirects": "The address {address} redirects more than {n} times",
    "fault.refused": "connection refused",
    "fault.request": "The server refused the request ({status}).",
    "fault.request_at": "The server at {shown} refused the request ({status}).",
    "fault.reset": "the connection was reset",
    "fault.scheme": "{url} does not begin with http:// or https://",
    "fault.seconds": "{n} seconds",
    "fault.server": "The model server failed ({status}). Try again in a while.",
    "fault.silent": (
        "The model at {shown} sent nothing for {seconds} seconds. If it needs longer, raise "
        "provider.timeout_ms."
    ),
    "fault.socks": "SOCKS proxies are not supported; set HTTPS_PROXY or HTTP_PROXY to an http:// proxy",
    "fault.switch": "the server wants to switch to another protocol",
    "fault.timed_out": "the connection timed out",
    "fault.tls": (
        "Cannot reach {shown} safely: {detail}. Check that the address wants https, or set "
        "SSL_CERT_FILE to the certificates to trust."
    ),
    "fault.too_long": "The conversation is too long for {model}. Use /compact or start a new session.",
    "fault.unfinished": "the stream ended without saying that it was complete",
    "fault.unreadable": "The answer of {shown} cannot be read: {detail}. Check CODER_BASE_URL.",
    "fault.url": "{url} is not a usable web address",
    "fault.web_page": (
        "{shown} answered with a web page, not with JSON. Check CODER_BASE_URL: it usually ends in /v1."
    ),
    "fault.web_page_titled": (
        "{shown} answered with a web page ({title}), not with JSON. Check CODER_BASE_URL: it "
        "usually ends in /v1."
    ),
    "fault.words": "{words}",
    "fault.local_failed": "The model {file} could not be loaded: {why}",
    "fault.local_late": "The model {file} was not loaded within {seconds} s.",
    "fault.local_missing": "What serves local models is not installed: pip install 'coder[local]'",
    "fault.local_no_file": "There is no file {file}. Give --model local:PATH the path of a GGUF file.",
    "fault.local_no_gguf": "{file} is not a GGUF file.",
    "fault.local_unfetched": "There is no local model here yet: `coder local` fetches one.",
}
