"""A second reader of shell lines: finds everything in a line that is not plain text, without a syntax tree.

One parser can be wrong in a way that nobody has thought of yet (tree-sitter takes `"$ $(x)"` for one variable
and text). So this one walks the raw bytes by bash's quoting rules alone and shares no code with the reader of
the tree; `tree_marks` says what that one has seen, and where the two differ the line is not understood.

It refuses (`Odd`) whatever bash itself decides late or by version: a line may fail closed, never open.
"""

from __future__ import annotations

from coder.policy.programs.tables import names

Marks = set[tuple[int, str]]

_DEEPEST = 60
_SPECIAL = frozenset(" \t\n\\'\"`$<>;&|()")
_WORD_ENDS = frozenset(" \t\n<>;&|()")
_PARAMETERS = frozenset("@*#?$!-_")
# Words after which a command begins, where they stand as commands themselves.
_LEADING = names("if then else elif fi do done while until { } ! time")


class Odd(Exception):
    """Something that this reader does not follow."""


def marks_of(data: bytes) -> Marks:
    """Where in the line an expansion, a quote, a redirection, a divider, a blank, a comment or the body of a
    here-document begins (`<<` stands for the first byte of that body, `>>` for its end)."""
    for byte in data:
        if (byte < 32 and byte not in b"\t\n") or byte == 127:
            raise Odd
    marks: Marks = set()
    _Lexer(data.decode("latin-1"), 0, marks, 0).commands("")
    return marks


class _Level:
    """One command list: its open parentheses and `case`s, and the here-documents that wait for their body."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.heredocs: list[tuple[str, bool, bool]] = []
        self.start = True  # the next word is a command

    def top(self) -> str:
        return self.open[-1] if self.open else ""


class _Lexer:
    def __init__(self, text: str, at: int, marks: Marks, depth: int) -> None:
        if depth > _DEEPEST:
            raise Odd
        self._text = text
        self._at = at
        self._marks = marks
        self._depth = depth

    # -- commands ----------------------------------------------------------------------------------------

    def commands(self, end: str) -> None:
        """A list of commands up to `end`, which is `)` or nothing."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Odd
        level = _Level()
        while self._at < len(self._text):
            if self._peek() == ")" and not level.open and end:
                break
            self._token(level)
        if level.open or level.heredocs or (end and self._peek() != end):
            raise Odd
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
                raise Odd
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

    # -- here-documents ----------------------------------------------------------------------------------

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
            raise Odd
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
            self._at = self._text.find("\n", end)
            if self._at < 0:
                self._at = len(self._text)
            self._marks.add((self._at, ">>"))
        level.heredocs.clear()
        self._at += 1

    def _body_end(self, name: str, strips: bool) -> int:
        """Where the line begins that is the delimiter."""
        at = self._at
        while at < len(self._text):
            end = self._text.find("\n", at)
            line = self._text[at : end if end >= 0 else len(self._text)]
            if (line.lstrip("\t") if strips else line) == name:
                return at
            if end < 0:
                break
            at = end + 1
        raise Odd

    def heredoc_text(self) -> None:
        while self._at < len(self._text):
            if self._peek() in "\\$`":
                self._quoting(quoted=True)
            else:
                self._at += 1

    # -- quotes and expansions ---------------------------------------------------------------------------

    def _quoting(self, *, quoted: bool) -> None:
        """The escape, quote or expansion that begins here. `quoted`: between double quotes, or as if."""
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
                raise Odd
        else:
            self._double()

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        # bash takes a continued line for one: what stands before and behind may be one token then.
        if not following or (following == "\n" and self._at and self._text[self._at - 1] not in " \t\n"):
            raise Odd
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
        raise Odd

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
            raise Odd
        self._at += 1

    def _backticks(self, quoted: bool) -> None:
        """Up to the next backtick, whatever quotes stand between; with escapes it would be read twice."""
        self._mark("`")
        end = self._text.find("`", self._at)
        inside = self._text[self._at : end]
        if end < 0 or "\\" in inside or (quoted and '"' in inside):
            raise Odd
        _Lexer(self._text[:end], self._at, self._marks, self._depth + 1).commands("")
        self._at = end
        self._mark("`")

    def _braces(self, quoted: bool) -> None:
        if self._peek() in (" ", "\t", "\n", "|", ""):
            raise Odd  # newer bashes run what stands there
        while self._at < len(self._text):
            char = self._peek()
            if char == "}":
                self._at += 1
                return
            if char == "{" or (char == "'" and quoted):
                raise Odd  # whether these quote depends on the operator
            if char in "\\$`'\"":
                self._quoting(quoted=quoted)
            elif char in "<>" and not quoted and self._text[self._at + 1 : self._at + 2] == "(":
                self._mark(char + "(")
                self.commands(")")
            else:
                self._at += 1
        raise Odd

    def _arithmetic(self) -> None:
        """Up to the `))` that closes it. Closed otherwise, it is a subshell in a substitution."""
        depth = 0
        while self._at < len(self._text):
            char = self._peek()
            if char in "\\'\"":
                raise Odd
            if char in "$`":
                self._quoting(quoted=True)
                continue
            if char == ")" and not depth:
                if not self._text.startswith("))", self._at):
                    raise Odd
                self._at += 2
                return
            depth += (char == "(") - (char == ")")
            self._at += 1
        raise Odd

    def _brackets(self) -> None:
        while self._at < len(self._text):
            char = self._peek()
            if char in "\\'\"[":
                raise Odd
            if char in "$`":
                self._quoting(quoted=True)
                continue
            self._at += 1
            if char == "]":
                return
        raise Odd

    # -- text --------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _mark(self, kind: str) -> None:
        self._marks.add((self._at, kind))
        self._at += len(kind)

    def _word_begins(self) -> bool:
        return self._at == 0 or self._text[self._at - 1] in _WORD_ENDS
