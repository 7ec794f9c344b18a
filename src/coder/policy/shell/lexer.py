"""An independent second parser: a tokenizer over the raw bytes by bash's quoting rules, without a syntax
tree.

One parser can be wrong in ways that nobody has thought of (tree-sitter reads `"$ $(x)"` as a variable and
text). So this one shares no code with the tree's reader; `tree_marks` gives that one's tokens in the same
terms; if they differ, parsing fails (differential parsing).

It refuses (`Unsupported`) what bash decides late or by version: a line may fail closed, never open."""

from __future__ import annotations

from coder.policy.programs import names

Marks = set[tuple[int, str]]

_DEEPEST = 60
_SPECIAL = frozenset(" \t\n\\'\"`$<>;&|()")
_WORD_ENDS = frozenset(" \t\n<>;&|()")
_PARAMETERS = frozenset("@*#?$!-_")
# Keywords after which a command begins.
_LEADING = names("if then else elif fi do done while until { } ! time")


class Unsupported(Exception):
    """A construct that this parser does not handle."""


def marks_of(data: bytes) -> Marks:
    """The positions where an expansion, quote, redirection, separator, blank, comment or here-document body
    begins (`<<`: the body's first byte, `>>`: its end)."""
    for byte in data:
        if (byte < 32 and byte not in b"\t\n") or byte == 127:
            raise Unsupported
    marks: Marks = set()
    _Lexer(data.decode("latin-1"), 0, marks, 0).commands("")
    return marks


class _Level:
    """State of one command list: open parentheses and `case`s, and pending here-documents."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.heredocs: list[tuple[str, bool, bool]] = []
        self.start = True  # the next word is a command

    def top(self) -> str:
        return self.open[-1] if self.open else ""


class _Lexer:
    def __init__(self, text: str, at: int, marks: Marks, depth: int) -> None:
        if depth > _DEEPEST:
            raise Unsupported
        self._text = text
        self._at = at
        self._marks = marks
        self._depth = depth

    def commands(self, end: str) -> None:
        """A command list up to `end`, which is `)` or nothing."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unsupported
        level = _Level()
        while self._at < len(self._text):
            if self._peek() == ")" and not level.open and end:
                break
            self._token(level)
        if level.open or level.heredocs or (end and self._peek() != end):
            raise Unsupported
        if end:
            self._mark(")")
        self._depth -= 1

    def _token(self, level: _Level) -> None:
        char = self._peek()
        if char in " \t":
            self._mark(" ")
        elif char == "\n":
            self._newline(level)
        elif char in ";|":
            self._mark(char)
            level.start = True
        elif char == "&":
            self._mark(char)
            level.start = self._peek() != ">"
        elif char in "<>":
            self._angle(level)
        elif char in "()":
            self._parenthesis(level)
        elif char == "#" and self._word_begins():
            self._mark("#")
            end = self._text.find("\n", self._at)
            self._at = end if end >= 0 else len(self._text)
        else:
            self._word(level)

    def _word(self, level: _Level) -> None:
        begins, first = self._word_begins(), self._at
        if self._peek() in _SPECIAL:
            joins = self._text.startswith("\\\n", self._at)
            self._quoting(quoted=False)
            level.start = level.start and joins
            return
        while self._at < len(self._text) and self._peek() not in _SPECIAL:
            self._at += 1
        whole = begins and (self._at == len(self._text) or self._peek() in _WORD_ENDS)
        self._keyword(level, self._text[first : self._at] if whole else "")

    def _keyword(self, level: _Level, word: str) -> None:
        if word == "in" and level.top() == "case":
            level.open[-1] = "in"
            level.start = True
        elif not level.start:
            return
        elif word == "case":
            level.open.append("case")
            level.start = False
        elif word == "esac" and level.top() == "in":
            level.open.pop()
            level.start = False
        else:
            level.start = word in _LEADING

    def _parenthesis(self, level: _Level) -> None:
        if self._peek() == ")":
            if not level.open or level.top() == "case":
                raise Unsupported
            if level.top() == "(":
                level.open.pop()
            self._mark(")")
            level.start = True
        elif level.start and self._text.startswith("((", self._at):
            self._mark("((")
            self._arithmetic()
            level.start = False
        else:
            assigned = self._at > 0 and self._text[self._at - 1] == "="
            self._mark("(")
            level.open.append("(")
            if len(level.open) > _DEEPEST:
                raise Unsupported
            level.start = not assigned

    def _angle(self, level: _Level) -> None:
        level.start = False
        here = self._text[self._at : self._at + 3]
        if here[1:2] == "(":
            self._mark(here[:2])
            self.commands(")")
        elif here == "<<<":
            for _ in here:
                self._mark("<")
        elif here[:2] == "<<":
            self._mark("<")
            self._mark("<")
            self._heredoc(level)
        else:
            self._mark(here[0])
            if self._peek() in (">&|" if here[0] == ">" else "&>"):
                self._mark(self._peek())

    def _heredoc(self, level: _Level) -> None:
        strips = self._peek() == "-"
        self._at += strips
        while self._peek() in (" ", "\t"):
            self._mark(" ")
        first = self._at
        while self._at < len(self._text) and self._peek() not in _WORD_ENDS:
            self._at += 1
        word = self._text[first : self._at]
        name = word
        if word[:1] == "\\":
            name = word[1:]
        elif word[:1] in ("'", '"') and word[-1:] == word[:1]:
            name = word[1:-1]
        if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
            raise Unsupported
        level.heredocs.append((name, name != word, strips))

    def _newline(self, level: _Level) -> None:
        level.start = True
        if not level.heredocs:
            self._mark("\n")
            return
        for name, raw, strips in level.heredocs:
            self._at += 1  # the newline before the body
            self._marks.add((self._at, "<<"))
            end = self._body_end(name, strips)
            if not raw:
                _Lexer(self._text[:end], self._at, self._marks, self._depth + 1).heredoc_text()
            self._at = self._text.find("\n", end) % (len(self._text) + 1)  # -1: the end
            self._marks.add((self._at, ">>"))
        level.heredocs.clear()
        self._at += 1

    def _body_end(self, name: str, strips: bool) -> int:
        """Where the delimiter's line begins."""
        at = self._at
        while at < len(self._text):
            end = self._text.find("\n", at)
            line = self._text[at : end if end >= 0 else len(self._text)]
            if (line.lstrip("\t") if strips else line) == name:
                return at
            if end < 0:
                break
            at = end + 1
        raise Unsupported

    def heredoc_text(self) -> None:
        while self._at < len(self._text):
            if self._peek() in "\\$`":
                self._quoting(quoted=True)
            else:
                self._at += 1

    def _quoting(self, *, quoted: bool) -> None:
        """The escape, quote or expansion at this position. `quoted`: in double quotes, or as if."""
        char = self._peek()
        if char == "\\":
            self._escape()
        elif char == "$":
            self._dollar(quoted)
        elif char == "`":
            self._backticks(quoted)
        elif char == "'":
            self._mark("'")
            self._at = self._text.find("'", self._at) + 1
            if not self._at:
                raise Unsupported
        else:
            self._double()

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        # bash joins continued lines, so the parts before and after may be one token.
        if not following or (following == "\n" and self._at and self._text[self._at - 1] not in " \t\n"):
            raise Unsupported
        self._at += 2

    def _double(self) -> None:
        self._mark('"')
        while self._at < len(self._text):
            if self._peek() == '"':
                self._mark('"')
                return
            if self._peek() in "\\$`":
                self._quoting(quoted=True)
            else:
                self._at += 1
        raise Unsupported

    def _dollar(self, quoted: bool) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if self._text.startswith("$((", self._at):
            self._mark("$((")
            self._arithmetic()
        elif following == "(":
            self._mark("$(")
            self.commands(")")
        elif following == "{":
            self._mark("${")
            self._braces(quoted)
        elif following == "[":
            self._mark("$[")
            self._brackets()
        elif following == "'" and not quoted:
            self._mark("$'")
            self._ansi()
        else:
            self._at += 2 if following and following in _PARAMETERS else 1

    def _ansi(self) -> None:
        while self._at < len(self._text) and self._peek() != "'":
            self._at += 2 if self._peek() == "\\" else 1
        if self._at >= len(self._text):
            raise Unsupported
        self._at += 1

    def _backticks(self, quoted: bool) -> None:
        """Up to the next backtick, ignoring quotes; escapes would need a second pass."""
        self._mark("`")
        end = self._text.find("`", self._at)
        inside = self._text[self._at : end]
        if end < 0 or "\\" in inside or (quoted and '"' in inside):
            raise Unsupported
        _Lexer(self._text[:end], self._at, self._marks, self._depth + 1).commands("")
        self._at = end
        self._mark("`")

    def _braces(self, quoted: bool) -> None:
        if self._peek() in (" ", "\t", "\n", "|", ""):
            raise Unsupported  # newer versions of bash run it: `${ cmd; }`
        while self._at < len(self._text):
            char = self._peek()
            if char == "}":
                self._at += 1
                return
            if char == "{" or (char == "'" and quoted):
                raise Unsupported  # whether these quote depends on the operator
            if char in "\\$`'\"":
                self._quoting(quoted=quoted)
            elif char in "<>" and not quoted and self._text[self._at + 1 : self._at + 2] == "(":
                self._mark(char + "(")
                self.commands(")")
            else:
                self._at += 1
        raise Unsupported

    def _arithmetic(self) -> None:
        """Up to the closing `))`. Otherwise it is a subshell in a substitution."""
        depth = 0
        while self._at < len(self._text):
            char = self._peek()
            if char in "\\'\"":
                raise Unsupported
            if char in "$`":
                self._quoting(quoted=True)
                continue
            if char == ")" and not depth:
                if not self._text.startswith("))", self._at):
                    raise Unsupported
                self._at += 2
                return
            depth += (char == "(") - (char == ")")
            self._at += 1
        raise Unsupported

    def _brackets(self) -> None:
        while self._at < len(self._text):
            char = self._peek()
            if char in "\\'\"[":
                raise Unsupported
            if char in "$`":
                self._quoting(quoted=True)
                continue
            self._at += 1
            if char == "]":
                return
        raise Unsupported

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _mark(self, kind: str) -> None:
        self._marks.add((self._at, kind))
        self._at += len(kind)

    def _word_begins(self) -> bool:
        return self._at == 0 or self._text[self._at - 1] in _WORD_ENDS
