"""Text files as they are on disk: encoding, byte order mark, line endings; and back, byte for byte.

The tools work on text with `\n` alone. What the file had besides is kept beside the text, so that a change of
one line changes the bytes of that line and no other."""

from __future__ import annotations

import codecs
import re

import msgspec

from coder.base.diff import line_blocks
from coder.base.text import common_ends, split_lines

SAMPLE = 65_536  # bytes looked at to tell text from binary, and one 8-bit encoding from another

_BOMS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Controls that text does not hold: all of C0 but \a \b \t \n \v \f \r \x1b, and DEL.
_CONTROL = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
_C1 = re.compile(rb"[\x80-\x9f]")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")

Span = tuple[int, int, str]


class NotText(Exception):
    """The bytes are no text in any encoding we read."""


class CannotEncode(Exception):
    """The new text holds a character that the file's encoding lacks; the text says which."""


class TextFile(msgspec.Struct, frozen=True):
    """A file's text with `\n` newlines, and what it takes to write it back. `newline` is the style of the
    file (the commoner one if mixed); `endings` is empty unless it is mixed: then one entry for each
    newline of `text`."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    newline: str = "\n"
    endings: list[str] = []

    @property
    def mixed(self) -> bool:
        return bool(self.endings)

    def encode(self) -> bytes:
        """The bytes that this was loaded from."""
        return self._bytes(_joined(self.text, self.newline, self.endings))

    def replaced(self, spans: list[Span]) -> bytes:
        """The bytes with `text[start:end]` replaced for each span (in order, not overlapping). A newline of
        the replacement takes the ending of the newline it stands for, else the file's style; an explicit
        `\r\n` in it stays that. Everything outside the spans keeps its bytes."""
        parts: list[str] = []
        seen = newlines = 0
        for start, end, new in spans:
            start, end, new = _trimmed(self.text, start, end, new)
            parts.append(self._raw(seen, start, newlines))
            newlines += self.text.count("\n", seen, start)
            inside = self.text.count("\n", start, end)
            parts.append(self._restyled(new, self.endings[newlines : newlines + inside]))
            newlines += inside
            seen = end
        parts.append(self._raw(seen, len(self.text), newlines))
        return self._bytes("".join(parts))

    def rewritten(self, text: str) -> bytes:
        """The bytes for a wholly new text: text without `\r\n` takes the file's line endings. In a file of
        mixed endings, lines that stay keep their own."""
        if "\r\n" in text:
            return self._bytes(text)
        if not self.endings:
            return self._bytes(_joined(text, self.newline, []))

        old, new = split_lines(self.text), split_lines(text)
        offsets = [0]
        for line in old:
            offsets.append(offsets[-1] + len(line))
        spans = [(offsets[a], offsets[b], "".join(new[c:d])) for a, b, c, d in line_blocks(old, new)]
        return self.replaced(spans)

    def _raw(self, start: int, end: int, newlines: int) -> str:
        piece = self.text[start:end]
        return _joined(piece, self.newline, self.endings[newlines:] if self.endings else [])

    def _restyled(self, new: str, replaced: list[str]) -> str:
        pieces = new.split("\n")
        out = [pieces[0]]
        for index, piece in enumerate(pieces[1:]):
            ending = replaced[index] if index < len(replaced) else self.newline
            if out[-1].endswith("\r"):
                out[-1], ending = out[-1][:-1], "\r\n"
            out += [ending, piece]
        return "".join(out)

    def _bytes(self, raw: str) -> bytes:
        try:
            return self.bom + raw.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = raw[error.start]
            name = f"{character!r} (U+{ord(character):04X})"
            raise CannotEncode(f"{name} cannot be written in {self.encoding}") from error


def load(data: bytes) -> TextFile:
    """The text in `data`; raises `NotText`."""
    encoding, bom, raw = _decoded(data)
    crlf, newlines = raw.count("\r\n"), raw.count("\n")
    if raw.count("\r") - crlf > newlines:
        return _with_returns(raw, encoding, bom)
    if crlf == 0:
        return TextFile(raw, encoding, bom)
    text = raw.replace("\r\n", "\n")
    if crlf == newlines:
        return TextFile(text, encoding, bom, "\r\n")
    endings = ["\r\n" if piece.endswith("\r") else "\n" for piece in raw.split("\n")[:-1]]
    return TextFile(text, encoding, bom, "\r\n" if crlf * 2 > newlines else "\n", endings)


def _with_returns(raw: str, encoding: str, bom: bytes) -> TextFile:
    """A file whose lines end in `\r` alone, all or most of them. Where few do, they are text of a line."""
    pieces = re.split("(\r\n|\n|\r)", raw)
    endings = pieces[1::2]
    text = "\n".join(pieces[::2])
    return TextFile(text, encoding, bom, "\r", endings if len(set(endings)) > 1 else [])


def detect(sample: bytes, *, whole: bool = True) -> tuple[str, bytes]:
    """The encoding and byte order mark of a file that begins with `sample`; raises `NotText`. With `whole`
    false the sample may end in the middle of a character."""
    for bom, encoding in _BOMS:
        if sample.startswith(bom) and _decodes(sample[len(bom) :], encoding, whole):
            return encoding, bom
    if b"\0" in sample:
        raise NotText
    if _decodes(sample, "utf-8", whole):
        return "utf-8", b""
    strange = len(_CONTROL.findall(sample)) + len(_C1.findall(sample))
    if _looks_like_gb18030(sample) and _decodes(sample, "gb18030", whole):
        return "gb18030", b""
    if strange * 10 > len(sample):
        raise NotText
    return "latin-1", b""


def _decoded(data: bytes) -> tuple[str, bytes, str]:
    sample = data[:SAMPLE]
    encoding, bom = detect(sample, whole=len(data) <= SAMPLE)
    if b"\0" in data and encoding in ("utf-8", "gb18030", "latin-1"):
        raise NotText
    body = data[len(bom) :]
    for candidate in (encoding, "gb18030", "latin-1"):
        if candidate == "gb18030" and not _looks_like_gb18030(sample):
            continue
        try:
            text = body.decode(candidate)
        except UnicodeDecodeError:
            body, bom = data, b""  # a mark that the rest does not bear out is no mark
            continue
        # Some encodings have two spellings of one character: those files would not survive.
        if candidate == "utf-8" or text.encode(candidate) == body:
            return candidate, bom, text
        body, bom = data, b""
    raise NotText  # not reached for bytes without NUL: latin-1 takes them all


def _decodes(data: bytes, encoding: str, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _looks_like_gb18030(sample: bytes) -> bool:
    """Chinese text has its high bytes in pairs; in Latin-1 prose nearly all stand alone."""
    runs = _HIGH_RUN.findall(sample)
    alone = sum(1 for run in runs if len(run) == 1)
    return bool(runs) and alone * 4 < len(runs)


def _joined(text: str, newline: str, endings: list[str]) -> str:
    """`text` with its newlines spelled as the file spells them."""
    if not endings:
        return text if newline == "\n" else text.replace("\n", newline)
    pieces = text.split("\n")
    out = [pieces[0]]
    for ending, piece in zip(endings, pieces[1:], strict=False):
        out += [ending, piece]
    return "".join(out)


def _trimmed(text: str, start: int, end: int, new: str) -> Span:
    """The span without what old and new have in common at either end, so that only the change is touched."""
    if "\r\n" in new:
        return start, end, new
    head, tail = common_ends(text[start:end], new)
    return start + head, end - tail, new[head : len(new) - tail]
