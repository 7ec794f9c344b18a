"""Text from models, files and programs cannot control the terminal: escapes are shown, not obeyed."""

from __future__ import annotations

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_SHOWN[0x1B] = "␛"
# Characters that reorder or hide what stands beside them (Trojan source).
_SHOWN |= {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)
}


def safe(text: str) -> str:
    text = text.translate(_SHOWN)
    return text.encode("utf-8", errors="replace").decode("utf-8") if not text.isascii() else text
