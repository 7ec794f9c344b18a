"""A shell line as a list of simple commands, read from the tree-sitter-bash syntax tree.

The tree is not trusted: tree-sitter recovers from errors that bash does not, and parses some lines
differently. So every node type must be known, every gap between tokens blank, every word one word by bash's
rules, and an independent parser (`lexer`) must agree on all expansions, quotes, redirections and separators;
else `ShellParseError` is raised and the line fails closed."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from coder.policy.shell.lexer import Unsupported, marks_of
from coder.policy.shell.syntax import check_size, count_commands, parse, tree_marks
from coder.policy.shell.words import UNKNOWN, ShellParseError, Word, WordReader, check_heredoc, is_identifier
from coder.texts import Text

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 120
MAX_COMMANDS = 1000
MAX_NESTED_LINES = 6


class Redirect(msgspec.Struct, frozen=True):
    """One redirection: its operator and target."""

    operator: str
    target: Word


class SimpleCommand(msgspec.Struct):
    """One simple command with its assignments and redirections. `trouble`: why it cannot be read-only."""

    source: str
    words: list[Word] = []
    assigns: list[tuple[str, Word]] = []
    redirects: list[Redirect] = []
    trouble: Text | None = None
    fed: bool = False  # stdin comes from the line or a pipe
    after: str = ""  # the operator that follows, `;` for a newline
    scope: tuple[int, ...] = ()  # the subshells around it

    @property
    def text(self) -> str:
        """The command without assignments and redirections."""
        return " ".join(quote(word.text) if word.exact else word.shell_text for word in self.words)


class Line(msgspec.Struct):
    """All simple commands of a line, in order."""

    commands: list[SimpleCommand] = []
    mentions: list[Word] = []  # words that no command has: of `for`, `case`, here-strings
    functions: set[str] = set()
    substitutes: bool = False
    fork_bomb: bool = False
    plain: bool = True  # nothing but lists, pipelines and subshells of simple commands

    def directories(self) -> list[str | None]:
        """Where each command runs, relative to the line; None if that depends on an exit status."""
        if not self.plain:
            return [None] * len(self.commands)
        found: list[str | None] = []
        reached: dict[tuple[int, ...], str | None] = {(): "."}
        moved: set[tuple[int, ...]] = set()
        before = ""
        for command in self.commands:
            scope = command.scope
            if scope not in reached:
                reached[scope] = next(
                    reached[scope[:n]] for n in range(len(scope), -1, -1) if scope[:n] in reached
                )
            found.append(reached[scope])
            here = reached[scope]
            if command.words and command.words[0].text in ("cd", "pushd", "popd"):
                target = command.words[1] if len(command.words) == 2 else UNKNOWN
                certain = command.after == "&&" and before in ("", "&&", ";") and target.exact
                certain = certain and target.text not in ("", "-") and here is not None
                reached[scope] = str(PurePath(here or "", target.text)) if certain else None
                moved.add(scope)
            elif scope in moved and command.after not in ("&&", "|", "|&", ""):
                reached[scope] = None  # the `cd` may have failed
            before = command.after
        return found


def read_line(line: str, depth: int = 0) -> Line:
    """The simple commands of `line`; raises `ShellParseError` if it cannot be parsed with certainty. `depth`:
    nesting in other lines (`sh -c '…'`)."""
    if depth > MAX_NESTED_LINES:
        raise ShellParseError(key="deep")
    check_size(line)
    data, root = parse(line)
    walker = _Walker(data)
    walker.statement(root, 0)
    if walker.reached != count_commands(data, root):
        raise ShellParseError(key="ambiguous")
    if len(walker.line.commands) > MAX_COMMANDS:
        raise ShellParseError(key="long")
    _cross_check(data, root)
    for command in walker.line.commands[:-1]:
        command.after = command.after or ";"
    walker.line.plain = walker.line.plain and not walker.line.substitutes and not walker.line.functions
    return walker.line


def _cross_check(data: bytes, root: Node) -> None:
    """The second parser must agree."""
    with suppress(Unsupported, RecursionError):
        if marks_of(data) == tree_marks(data, root):
            return
    raise ShellParseError(key="ambiguous")


_LISTS = frozenset(
    {
        "program", "list", "pipeline", "subshell", "negated_command", "if_statement", "elif_clause",
        "else_clause", "while_statement", "do_group", "compound_statement", "case_statement", "case_item",
        "for_statement",
    }
)  # fmt: skip
_KEYWORDS = frozenset(
    {
        ";", ";;", "&", "&&", "||", "|", "|&", "(", ")", "{", "}", "!", "\n", "if", "then", "elif", "else",
        "fi", "while", "until", "do", "done", "case", "in", "esac", "for",
    }
)  # fmt: skip
_DIVIDERS = frozenset({";", "&", "&&", "||", "|", "|&"})
_PLAIN = frozenset({"program", "list", "pipeline", "subshell"})
_STATEMENTS = (_LISTS | {
    "redirected_statement", "command", "declaration_command", "unset_command", "test_command",
    "variable_assignment", "variable_assignments", "function_definition", "c_style_for_statement",
}) - {"do_group", "case_item", "elif_clause", "else_clause"}  # fmt: skip
_AFTER_DASH = (b"", b" ", b"\t", b"\n", b";", b"&", b"|", b")")  # `>&-x` is several tokens
_OPERATORS = frozenset({"=", "==", "!=", "!"})
_AFTER_BRACKET = frozenset({b" ", b"\t", b"\n"})
_DOUBLE_OPERATORS = _OPERATORS | {"=~", "<", ">", "&&", "||", "(", ")"}


class _Walker:
    """Walks the statements of a tree and collects the simple commands."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.line = Line(commands=[], mentions=[], functions=set())
        self.words = WordReader(data, self._substitution, self._trouble)
        self._depth = 0
        self._in_substitution = 0
        self.reached = 0  # must equal `count_commands`: nothing was skipped

    def _substitution(self, node: Node) -> None:
        """A command or process substitution: a risk by itself, and its commands are commands of the line."""
        self.line.substitutes = True
        self.reached += 1
        text = self._text(node)
        if text.startswith("`") and ("\\" in text or "#" in text):
            raise ShellParseError(text)
        self._in_substitution += 1
        children = node.children
        self._check_separators(children)
        for child in children[1:-1]:
            if child.type == "file_redirect":
                self.line.commands.append(SimpleCommand(self._text(child), redirects=[self._redirect(child)]))
            else:
                self._child(child, self._depth + 1)
        self._in_substitution -= 1

    def _trouble(self, node: Node, reason: Text) -> None:
        self.line.commands.append(SimpleCommand(self._text(node), trouble=reason))

    def statement(self, node: Node, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ShellParseError(key="deep")
        outer, self._depth = self._depth, depth
        kind = node.type
        if kind in _LISTS:
            self._list(node, depth)
        elif kind == "command":
            self.line.commands.append(self._command(node))
        elif kind == "redirected_statement":
            self._redirected(node, depth)
        elif kind in ("declaration_command", "unset_command"):
            self._declaration(node)
        elif kind in ("variable_assignment", "variable_assignments"):
            self._assignments(node)
        elif kind == "test_command":
            self._test(node)
        elif kind == "function_definition":
            self._function(node, depth)
        else:
            raise ShellParseError(self._text(node))
        self._depth = outer

    def _list(self, node: Node, depth: int) -> None:
        children = node.children
        if node.type == "compound_statement" and children and children[0].type == "((":
            self.words.arithmetic(node)
            self._trouble(node, Text("policy.why.evaluates"))
            return
        if node.type == "for_statement":
            self._loop_variable(node)
        self._check_separators(children)
        piped = node.type == "pipeline"
        first = begun = len(self.line.commands)
        self.line.plain = self.line.plain and node.type in _PLAIN
        for child in children:
            self._child(child, depth + 1, within_case=node.type == "case_item")
            if piped and child.type in ("|", "|&"):
                first = len(self.line.commands)
            elif piped and child is not children[0]:
                for command in self.line.commands[first:]:
                    command.fed = True
        if node.type == "subshell":
            for command in self.line.commands[begun:]:
                command.scope = (node.start_byte, *command.scope)

    def _child(self, node: Node, depth: int, within_case: bool = False) -> None:
        """A part of a list: a keyword, a comment, a word (of `for`, `case`) or a statement."""
        if node.type == "comment":
            start = node.start_byte
            if self._in_substitution or (start and self.data[start - 1] not in b" \t\n;&|()"):
                raise ShellParseError(self._text(node))
        elif not node.is_named:
            if node.type not in _KEYWORDS or (node.type == ";;" and not within_case):
                raise ShellParseError(self._text(node))
            if node.type in _DIVIDERS and self.line.commands:
                self.line.commands[-1].after = node.type
        elif node.type in _STATEMENTS or node.type in _LISTS:
            self.statement(node, depth)
        elif node.type == "extglob_pattern":
            self.words.pattern(node)
        elif node.type == "heredoc_redirect":
            raise ShellParseError(self._text(node))
        else:
            self.line.mentions.append(self.words.word(node))

    def _loop_variable(self, node: Node) -> None:
        names = [child for child in node.children if child.type == "variable_name"]
        if len(names) != 1 or node.children[0].type != "for":
            raise ShellParseError(self._text(node))
        name = self._text(names[0])
        self.line.commands.append(SimpleCommand(f"for {name}", assigns=[(name, Word("", exact=False))]))

    def _check_separators(self, children: list[Node]) -> None:
        """Adjacent statements need a newline or separator between them, and nothing else."""
        for before, after in pairwise(children):
            gap = self.data[before.end_byte : after.start_byte].decode()
            blank = gap.replace("\\\n", "")
            # `{ls` and `![[` are ordinary words to bash.
            if blank.strip(" \t\n") or (before.type in ("{", "!") and not blank):
                raise ShellParseError(gap)
            ends_line = self.data[before.end_byte - 1] == 10  # a here-document may include its newline
            if (
                before.type in _STATEMENTS
                and (after.type in _STATEMENTS or after.type == "comment")
                and "\n" not in gap.replace("\\\n", "")
                and (after.type != "comment" or not gap)
                and not (b"<<" in self.data[before.start_byte : before.end_byte] and ends_line)
            ):
                raise ShellParseError(self._text(after))

    def _function(self, node: Node, depth: int) -> None:
        name_node = next((child for child in node.children if child.type == "word"), None)
        if name_node is None:
            raise ShellParseError(self._text(node))
        name = self.words.word(name_node).text
        self.line.functions.add(name)
        self._trouble(name_node, Text("policy.why.shadowed"))
        first = len(self.line.commands)
        for child in node.children:
            if child.type in _STATEMENTS:
                self.statement(child, depth + 1)
            elif child.type == "file_redirect":
                self.line.commands.append(SimpleCommand(self._text(child), redirects=[self._redirect(child)]))
            elif child.is_named and child is not name_node and child.type != "comment":
                raise ShellParseError(self._text(node))
        body = self.line.commands[first:]
        if any(command.words and command.words[0].text == name for command in body):
            self.line.fork_bomb = self.line.fork_bomb or b"&" in self.data or b"|" in self.data

    def _command(self, node: Node) -> SimpleCommand:
        simple = SimpleCommand(self._text(node), words=[], assigns=[], redirects=[])
        self.reached += 1
        self._check_blanks(node.children)
        for child in node.children:
            kind = child.type
            if kind == "command_name":
                if len(child.children) != 1:
                    raise ShellParseError(simple.source)
                simple.words.append(self._command_name(child.children[0]))
            elif kind == "variable_assignment":
                simple.assigns.extend(self._assigned(child))
            elif kind == "file_redirect":
                simple.redirects.append(self._redirect(child))
            elif kind == "herestring_redirect":
                simple.fed = True
                self._herestring(child)
            elif kind == "==":
                simple.words.append(Word("==", shell_text="=="))
            elif child.is_named:
                simple.words.append(self.words.word(child))
            else:
                raise ShellParseError(simple.source)
        return simple

    def _command_name(self, node: Node) -> Word:
        name = self.words.word(node)
        if "=" in name.text:
            raise ShellParseError(name.text)
        return name

    def _check_blanks(self, children: list[Node]) -> None:
        """Within a simple command: at least one blank between words, and only blanks."""
        for before, after in pairwise(children):
            gap = self.data[before.end_byte : after.start_byte].decode().replace("\\\n", " ")
            touching = "redirect" in after.type and before.type not in ("word", "number")
            if gap.strip(" \t") or (not gap and (not touching or self._names_descriptor(before, after))):
                raise ShellParseError(self._text(after))

    def _redirected(self, node: Node, depth: int) -> None:
        body: SimpleCommand | None = None
        compound = SimpleCommand(self._outline(node), words=[], assigns=[], redirects=[])
        heredocs = 0
        self._check_no_newline(node.children)
        first = len(self.line.commands)
        for child in node.children:
            if child.type == "command":
                body = self._command(child)
                body.source = compound.source
                self.line.commands.append(body)
            elif child.type == "file_redirect":
                self._attach(child, body, compound)
            elif child.type == "herestring_redirect":
                self._herestring(child)
                self._feed(first)
            elif child.type == "heredoc_redirect":
                heredocs += 1
                self._feed(first)
                self._heredoc(child, body, compound, depth)
            elif child.type in _STATEMENTS:
                self.statement(child, depth + 1)
                body = self._last_of_list(child)
            else:
                raise ShellParseError(self._text(child))
        if heredocs > 1:
            raise ShellParseError(compound.source)
        if compound.redirects or heredocs:
            self.line.plain = False
        if compound.redirects:
            self.line.commands.append(compound)

    def _last_of_list(self, node: Node) -> SimpleCommand | None:
        """tree-sitter attaches `> x` to all of `a && b > x`; in bash it belongs to `b`."""
        if node.type not in ("list", "pipeline") or not self.line.commands[-1].words:
            return None
        return self.line.commands[-1]

    def _feed(self, first: int) -> None:
        for command in self.line.commands[first:]:
            command.fed = True

    def _attach(self, node: Node, body: SimpleCommand | None, compound: SimpleCommand) -> None:
        """tree-sitter attaches words after `2>x` to the redirection; in bash they belong to the command."""
        extra: list[Word] = []
        redirect = self._redirect(node, extra)
        (body or compound).redirects.append(redirect)
        if body is not None and body.source != compound.source:
            body.source = f"{body.source} {self._text(node)}"
        if extra and body is None:
            raise ShellParseError(self._text(node))
        if body is not None:
            body.words.extend(extra)

    def _heredoc(self, node: Node, body: SimpleCommand | None, compound: SimpleCommand, depth: int) -> None:
        check_heredoc(node, self.data)
        for child in node.children:
            if child.type == "heredoc_body":
                self.words.heredoc(child)
            elif child.type in ("heredoc_start", "heredoc_end", "file_descriptor", "<<", "<<-"):
                continue
            elif child.type == "file_redirect":
                self._attach(child, body, compound)
            elif child.type in _STATEMENTS:
                first = len(self.line.commands)
                self.statement(child, depth + 1)
                self._feed(first)
            elif child.is_named or child.type not in _KEYWORDS:
                raise ShellParseError(self._text(node))

    def _herestring(self, node: Node) -> None:
        for child in node.children:
            if child.is_named and child.type != "file_descriptor":
                self.line.mentions.append(self.words.word(child))

    def _check_no_newline(self, children: list[Node]) -> None:
        for before, after in pairwise(children):
            gap = self.data[before.end_byte : after.start_byte].decode().replace("\\\n", " ")
            if gap.strip(" \t") or (not gap and self._names_descriptor(before, after)):
                raise ShellParseError(self._text(after))

    def _names_descriptor(self, before: Node, after: Node) -> bool:
        """`{name}>file` assigns the variable `name`; the tree takes it for a word."""
        braced = before.type != "compound_statement" and self.data[before.end_byte - 1] == ord("}")
        return braced and "redirect" in after.type

    def _redirect(self, node: Node, extra: list[Word] | None = None) -> Redirect:
        operator = ""
        targets: list[Word] = []
        self._check_no_newline(node.children)
        for before, child in pairwise([node, *node.children]):
            if child.type == "file_descriptor":
                continue
            if targets and before.end_byte == child.start_byte:  # `>x $'a'\b`: the tree has two words
                raise ShellParseError(self._text(child))
            if not child.is_named:
                operator = child.type.strip()
                following = self.data[child.end_byte : child.end_byte + 1]
                if operator.endswith("-") and following not in _AFTER_DASH:
                    raise ShellParseError(self._text(node))
            else:
                targets.append(self.words.word(child))
        if operator in (">&-", "<&-"):  # no target: the words after it belong to the command
            targets.insert(0, Word("-"))
        if not targets or not operator or (extra is None and len(targets) > 1):
            raise ShellParseError(self._text(node))
        if extra is not None:
            extra.extend(targets[1:])
        return Redirect(operator, targets[0])

    def _assignments(self, node: Node) -> None:
        nodes = [node] if node.type == "variable_assignment" else node.children
        self._check_blanks(list(nodes))
        assigns = [pair for child in nodes for pair in self._assigned(child)]
        self.line.commands.append(SimpleCommand(self._text(node), assigns=assigns))

    def _assigned(self, node: Node) -> list[tuple[str, Word]]:
        if node.type != "variable_assignment":
            raise ShellParseError(self._text(node))
        target, *rest = node.children
        if not rest or rest[0].type not in ("=", "+=") or rest[0].start_byte != target.end_byte:
            raise ShellParseError(self._text(node))
        if len(rest) > 2 or (len(rest) == 2 and rest[1].start_byte != rest[0].end_byte):
            raise ShellParseError(self._text(node))
        if target.type == "subscript":
            self._trouble(target, Text("policy.why.evaluates"))
            self.words.substitutions(target)
        name = self._text(target).split("[")[0]
        if not is_identifier(name):  # `*x=1 ls` runs what the glob matches
            raise ShellParseError(name)
        value = Word("")
        if len(rest) == 2 and rest[1].type == "array":
            for item in rest[1].children:
                if item.is_named:
                    self.words.word(item)
                if self._text(item).startswith("["):  # `a=([x]=1)`: x is evaluated
                    self._trouble(item, Text("policy.why.evaluates"))
            value = Word("", exact=False, splits=True)
        elif len(rest) == 2:
            value = self.words.word(rest[1])
        return [(name, value)]

    def _declaration(self, node: Node) -> None:
        """`export`, `declare`, `local`, `readonly`, `unset`: a command with its assignments."""
        self.reached += 1
        self._check_blanks(node.children)
        keyword, *rest = node.children
        simple = SimpleCommand(self._text(node), words=[Word(self._text(keyword))], assigns=[])
        for child in rest:
            if child.type == "variable_assignment":
                simple.assigns.extend(self._assigned(child))
            elif child.type == "variable_name":
                simple.words.append(Word(self._text(child)))
            else:
                simple.words.append(self.words.word(child))
        self.line.commands.append(simple)

    def _test(self, node: Node) -> None:
        """`[ … ]` is an ordinary command; `[[ … ]]` is syntax and evaluates arithmetic."""
        self.reached += 1
        double = node.children[0].type == "[["
        words = [Word("[[" if double else "[")]
        after = node.children[0].end_byte
        if self.data[after : after + 1] not in _AFTER_BRACKET:  # `[[a > b ]]`: the command `[[a` writes b
            raise ShellParseError(self._text(node))
        self._check_no_newline(node.children)
        self._test_words(node.children[1:-1], words, double)
        self.line.commands.append(SimpleCommand(self._text(node), words=words))

    def _test_words(self, nodes: list[Node], words: list[Word], double: bool) -> None:
        if double:
            self._check_no_newline(nodes)
        else:
            self._check_blanks(nodes)
        for node in nodes:
            if node.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
                self._test_words(node.children, words, double)
            elif node.type == "test_operator" or not node.is_named:
                text = self._text(node).strip()
                if node.type != "test_operator" and text not in (_DOUBLE_OPERATORS if double else _OPERATORS):
                    raise ShellParseError(text)
                words.append(Word(text))
            elif node.type in ("regex", "extglob_pattern"):
                self.words.pattern(node)
                words.append(Word("", exact=False))
            else:
                words.append(self.words.word(node))

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode()

    def _outline(self, node: Node) -> str:
        """A statement's text without its here-document body."""
        text = self._text(node)
        return text.split("\n", 1)[0] if "<<" in text else text
