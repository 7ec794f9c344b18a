"""Calls as models make them that were trained on other harnesses, or that are small.

`plain`: what the call means is plain, so it must be done without a further step. Where `refused` is given as
well, it is not done nevertheless, which counts against us. The others could mean several things, or
ask for what would change something: they are refused with the nearest that can be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

APP = """\
import os


def greet(name):
    return f"Hello, {name}!"


def main():
    print(greet("world"))
"""
FILES = {
    "src/app.py": APP,
    "src/util/text.py": "def shout(text):\n    return text.upper()\n",
    "README.md": "# Sample\n\nA small project.\n",
    "old.txt": "old\n",
    ".gitignore": "node_modules/\n",
    "node_modules/x.js": "greet\n",
}
SEEN = ("src/app.py", "README.md")  # read before the call is made


class Call(NamedTuple):
    """A call, and what must come of it."""

    family: str
    name: str
    arguments: Any
    tool: str = ""
    says: str = ""  # stands in the result
    args: dict[str, Any] | None = None  # what the tool is run with
    files: Mapping[str, str | None] = MappingProxyType({})  # what is there afterwards; None: nothing
    refused: str = ""  # stands in the refusal
    plain: bool = True


GREETING = 'f"Hello, {name}!"'
HI = APP.replace("Hello", "Hi")
EDITED: dict[str, str | None] = {"src/app.py": HI}
SWAP = {"old": 'return f"Hello, {name}!"', "new": 'return f"Hi, {name}!"'}
CHANGE = f"-    {SWAP['old']}\n+    {SWAP['new']}"
ENVELOPE = f"*** Begin Patch\n*** Update File: src/app.py\n@@\n{CHANGE}\n*** End Patch"
HUNK = '@@ -4,2 +4,2 @@\n def greet(name):\n-    return f"Hello, {name}!"\n+    return f"Hi, {name}!"\n'
BLOCKS = f"<<<<<<< SEARCH\n    {SWAP['old']}\n=======\n    {SWAP['new']}\n>>>>>>> REPLACE\n"
CLINE = f"------- SEARCH\n    {SWAP['old']}\n=======\n    {SWAP['new']}\n+++++++ REPLACE\n"
NEW: dict[str, str | None] = {"new.py": "x = 1\n"}

CALLS = [
    # reading
    Call("Claude", "Read", {"file_path": "src/app.py"}, "read", GREETING),
    Call(
        "Claude", "Read", {"file_path": "{root}/src/app.py", "offset": 4, "limit": 2}, "read", "4\tdef greet"
    ),
    Call(
        "small",
        "read",
        {"path": "lib/text.py"},
        "read",
        "lib/text.py does not exist; this is src/util/text.py:",
    ),
    Call("small", "read", '{"path": "src/app.py", "limit": 45', "read", GREETING),
    Call(
        "small",
        "grep",
        {"pattern": "greet|shout", "path": "src/app.py src/util"},
        "grep",
        "src/util/text.py\n1: ",
    ),
    Call("Claude", "View", {"file_path": "src/app.py"}, "read", GREETING),
    Call("Gemini", "read_file", {"absolute_path": "{root}/README.md"}, "read", "# Sample"),
    Call("GPT", "view_image", {"path": "README.md"}, "read", "# Sample"),
    Call("Gemini", "default_api.read_file", {"path": "README.md", "limit": None}, "read", "# Sample"),
    Call("Gemini", "default_api:read_file", {"path": "README.md"}, "read", "# Sample"),
    Call("GPT", "functions.read", {"path": "README.md"}, "read", "# Sample"),
    Call("GPT", "read<|channel|>commentary", {"path": "README.md"}, "read", "# Sample"),
    Call(
        "GPT", "repo_browser.open_file", {"path": "src/app.py", "line_start": 4, "line_end": 5}, "read"
    )._replace(args={"path": "src/app.py", "offset": 4, "limit": 2}),
    Call("GPT", "open_file", '"README.md"', "read", "# Sample"),
    Call("GPT", "read", {"path": "src/app.py", "start_line": "4", "end_line": "5"}, "read", "4\tdef greet"),
    Call("GPT", "read", {"path": "src/app.py", "range": "4-5"}, "read")._replace(
        args={"path": "src/app.py", "offset": 4, "limit": 2}
    ),
    Call("DeepSeek", "read_file", {"arguments": {"path": "README.md"}}, "read", "# Sample"),
    Call("DeepSeek", "read", {"name": "read", "parameters": {"path": "README.md"}}, "read", "# Sample"),
    Call("DeepSeek", "read", '"{\\"path\\": \\"README.md\\"}"', "read", "# Sample"),
    Call("Llama", "read_file", {"input": '{"filename": "README.md"}'}, "read", "# Sample"),
    Call("Llama", "cat", {"file": "./README.md"}, "read", "# Sample"),
    Call("Llama", "read", {"path": {"type": "string", "value": "README.md"}}, "read", "# Sample"),
    Call("Llama", "ReadFileTool", {"filePath": "README.md", "reason": "to see it"}, "read", "# Sample"),
    Call("Qwen", "read_file", {"path": ["README.md"]}, "read", "# Sample"),
    Call("Qwen", "view", {"path": "`README.md`"}, "read", "# Sample"),
    Call("Qwen", "read", {"path": "src/app.py:4"}, "read", "4\tdef greet"),
    Call("Kimi", "functions.read:0", {"path": "README.md", "explanation": ""}, "read", "# Sample"),
    Call(
        "Cursor",
        "read_file",
        {"target_file": "src/app.py", "should_read_entire_file": True},
        "read",
        GREETING,
    ),
    Call(
        "Cursor",
        "read_file",
        {"target_file": "src/app.py"} | {"start_line_one_indexed": 4, "end_line_one_indexed_inclusive": -1},
        "read",
        "9\t",
    ),
    Call("small", "read", {"path": "src"}, "read", "util/"),
    Call("small", "READ", {"Path": "README.md"}, "read", "# Sample"),
    Call("small", "read", {"path": "README.md", "offset": "null", "limit": "100"}, "read", "# Sample"),
    # looking around
    Call("Claude", "LS", {"path": "{root}"}, "list", "(hidden by .gitignore: node_modules/)"),
    Call("Gemini", "list_directory", {"dir_path": "src", "ignore": []}, "list", "util/"),
    Call("Mistral", "list_dir", {"directory": "src/"}, "list", "app.py"),
    Call("Cursor", "list_dir", {"relative_workspace_path": ".", "explanation": "look"}, "list", "README.md"),
    Call("Cline", "list_files", {"path": "src", "recursive": True}, "glob", "src/util/text.py"),
    Call("Cline", "list_files", {"path": "src", "recursive": "false"}, "list", "util/"),
    Call("Llama", "ls", "{}", "list", "README.md"),
    Call("Claude", "Glob", {"pattern": "**/*.py"}, "glob", "src/util/text.py"),
    Call("GPT", "find_files", {"query": "**/*.md"}, "glob", "README.md"),
    Call("Qwen", "glob", {"pattern": "*.py", "dir": "src", "case_sensitive": True}, "glob", "src/app.py"),
    Call(
        "Roo",
        "search_files",
        {"path": ".", "regex": "def gr", "file_pattern": "*.py"},
        "grep",
        "4: def greet",
    ),
    Call("small", "search_files", {"path": ".", "pattern": "*.md"}, "glob", "README.md"),
    Call(
        "Claude", "Grep", {"pattern": "def greet", "output_mode": "content", "-n": True, "-C": 1}, "grep"
    )._replace(says="4: def greet(name):\n5-     return"),
    Call("Claude", "Grep", {"pattern": "DEF GREET", "-i": True, "type": "py", "-A": 1}, "grep", "5- "),
    Call(
        "Claude", "Grep", {"pattern": "greet", "output_mode": "files_with_matches", "glob": "*.py"}, "grep"
    )._replace(says="src/app.py"),
    Call(
        "Gemini",
        "search_file_content",
        {"pattern": "greet\\(", "include": "*.py"},
        "grep",
        "9:     print(greet",
    ),
    Call("GPT", "ripgrep", {"query": "def greet", "directory": "src"}, "grep", "4: def greet"),
    Call(
        "Cursor",
        "grep_search",
        {"query": "GREET", "case_sensitive": False} | {"include_pattern": "*.py", "explanation": "find"},
        "grep",
        "4: def greet",
    ),
    Call("Copilot", "grep_search", {"query": "greet(", "isRegexp": False}, "grep", "4: def greet"),
    Call("DeepSeek", "grep", {"pattern": "greet(", "path": "src/app.py"}, "grep", "searched as plain text"),
    Call("small", "search", {"text": "shout"}, "grep", "1: def shout"),
    # changing
    Call("Claude", "Write", {"file_path": "new.py", "content": "x = 1\n"}, "write", files=NEW),
    Call("Gemini", "write_file", {"file_path": "{root}/new.py", "content": "x = 1\n"}, "write", files=NEW),
    Call("GPT", "create_file", {"filename": "new.py", "contents": "x = 1\n"}, "write", files=NEW),
    Call(
        "Cline",
        "write_to_file",
        {"path": "new.py", "content": "x = 1\n", "task_progress": "- [ ] a"},
        "write",
        files=NEW,
    ),
    Call("Llama", "WriteFile", {"path": "new.py", "text": "x = 1\n", "overwrite": True}, "write", files=NEW),
    Call("Qwen", "write", {"path": "new.py", "content": ["x = 1", ""]}, "write", files=NEW),
    Call("Mistral", "write", {"path": "new.json", "content": {"a": [1, 2]}}, "write")._replace(
        files={"new.json": '{\n  "a": [\n    1,\n    2\n  ]\n}\n'}
    ),
    Call(
        "Claude",
        "str_replace_based_edit_tool",
        {"command": "view", "path": "src/app.py", "view_range": [4, 5]},
        "read",
    )._replace(args={"path": "src/app.py", "offset": 4, "limit": 2}),
    Call(
        "Claude",
        "str_replace_editor",
        {"command": "create", "path": "new.py", "file_text": "x = 1\n"},
        "write",
        files=NEW,
    ),
    Call(
        "Claude",
        "str_replace_editor",
        {"command": "str_replace", "path": "src/app.py"} | {"old_str": SWAP["old"], "new_str": SWAP["new"]},
        "edit",
        files=EDITED,
    ),
    Call(
        "Claude",
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "README.md", "insert_line": 1, "insert_text": "new\n"},
        "patch",
        files={"README.md": "# Sample\nnew\n\nA small project.\n"},
    ),
    Call(
        "Claude",
        "Edit",
        {
            "file_path": "src/app.py",
            "old_string": SWAP["old"],
            "new_string": SWAP["new"],
            "replace_all": False,
        },
        "edit",
        files=EDITED,
    ),
    Call(
        "Claude",
        "MultiEdit",
        {
            "file_path": "src/app.py",
            "edits": [
                {"old_string": "Hello", "new_string": "Ho"},
                {"old_string": "Ho,", "new_string": "Hi,"},
            ],
        },
        "edit",
        files=EDITED,
    ),
    Call(
        "Gemini",
        "replace",
        {"file_path": "src/app.py", "instruction": "say Hi", "old_string": "Hello", "new_string": "Hi"}
        | {"expected_replacements": 1},
        "edit",
        files=EDITED,
    ),
    Call(
        "GPT",
        "search_replace",
        {"file": "src/app.py", "search": "Hello", "replace": "Hi"},
        "edit",
        files=EDITED,
    ),
    Call(
        "Qwen",
        "edit_file",
        {"path": "src/app.py", "edits": '[{"oldText": "Hello", "newText": "Hi"}]'},
        "edit",
        files=EDITED,
    ),
    Call(
        "Qwen",
        "edit",
        {
            "file_path": "src/app.py",
            "old_string": '4\tdef greet(name):\n5\t    return f"Hello',
            "new_string": '4\tdef greet(name):\n5\t    return f"Hi',
        },
        "edit",
        files=EDITED,
    ),
    Call(
        "DeepSeek",
        "edit",
        {
            "path": "src/app.py",
            "old_string": 'def greet(name):  \n\treturn f"Hello, {name}!"\n',
            "new_string": 'def greet(name):\n\treturn f"Hi, {name}!"\n',
        },
        "edit",
        files=EDITED,
    ),
    Call("Cline", "replace_in_file", {"path": "src/app.py", "diff": CLINE}, "edit", files=EDITED),
    Call("Roo", "apply_diff", {"path": "src/app.py", "diff": BLOCKS}, "edit", files=EDITED),
    Call(
        "Copilot",
        "replace_string_in_file",
        {"filePath": "src/app.py", "oldString": "Hello", "newString": "Hi"},
        "edit",
        files=EDITED,
    ),
    Call(
        "Copilot",
        "multi_replace_string_in_file",
        {
            "explanation": "hi",
            "replacements": [{"filePath": "src/app.py"} | {"oldString": "Hello", "newString": "Hi"}],
        },
        "edit",
        files=EDITED,
    ),
    Call("GPT", "apply_patch", {"input": ENVELOPE}, "patch", files=EDITED),
    Call(
        "GPT",
        "applypatch",
        ENVELOPE.join(['"', '"']).replace("\n", "\\n").replace('f"', 'f\\"').replace('!"', '!\\"'),
        "patch",
        files=EDITED,
    ),
    Call("GPT", "shell", {"command": ["apply_patch", ENVELOPE]}, "patch", files=EDITED),
    Call("GPT", "bash", {"command": f"apply_patch <<'EOF'\n{ENVELOPE}\nEOF"}, "patch", files=EDITED),
    Call("Mistral", "apply_diff", {"file_path": "src/app.py", "diff": HUNK}, "patch", files=EDITED),
    Call(
        "Cursor",
        "delete_file",
        {"target_file": "old.txt", "explanation": "not needed"},
        "patch",
        files={"old.txt": None},
    ),
    Call("Claude", "move_file", {"source": "old.txt", "destination": "kept/old.txt"}, "patch")._replace(
        files={"old.txt": None, "kept/old.txt": "old\n"}
    ),
    # commands
    Call(
        "Claude", "Bash", {"command": "echo hi there", "description": "Say hi", "timeout": 5000}, "bash"
    )._replace(args={"command": "echo hi there", "timeout_ms": 5000}),
    Call(
        "GPT", "shell", {"command": ["bash", "-lc", "echo hi there"], "workdir": "{root}"}, "bash", "hi there"
    ),
    Call("GPT", "container.exec", {"cmd": ["echo", "hi there"], "timeout": 10}, "bash")._replace(
        args={"command": "echo 'hi there'", "timeout_ms": 10000}
    ),
    Call("GPT", "local_shell", {"command": "echo hi there", "workdir": "."}, "bash", "hi there"),
    Call(
        "Gemini",
        "run_shell_command",
        {"command": "echo hi there", "is_background": False},
        "bash",
        "hi there",
    ),
    Call(
        "Cline",
        "execute_command",
        {"command": "echo hi there", "requires_approval": False},
        "bash",
        "hi there",
    ),
    Call(
        "Cursor",
        "run_terminal_cmd",
        {"command": "echo hi there", "is_background": False, "explanation": "x"},
        "bash",
        "hi there",
    ),
    Call("Mistral", "run_command", {"cmd": "echo hi there"}, "bash", "hi there"),
    Call("Llama", "bash", {"script": "echo hi there", "timeout_seconds": 20}, "bash", "hi there"),
    Call("small", "terminal", '"echo hi there"', "bash", "hi there"),
    # plans, agents, the rest
    Call(
        "Claude",
        "TodoWrite",
        {"todos": [{"content": "a", "status": "in_progress", "activeForm": "doing a"}]},
        "todowrite",
        args={"todos": [{"content": "a", "status": "in_progress"}]},
    ),
    Call(
        "GPT",
        "update_plan",
        {
            "explanation": "so",
            "plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "pending"}],
        },
        "todowrite",
        "1 of 2 completed",
    ),
    Call(
        "Qwen",
        "todo_write",
        {"todos": '[{"id": 7, "task": "a", "status": "in-progress"}]'},
        "todowrite",
        args={"todos": [{"id": "7", "content": "a", "status": "in_progress"}]},
    ),
    Call("small", "todowrite", {"todos": "- [x] a\n- [ ] b"}, "todowrite", "1 of 2 completed"),
    Call("Mistral", "todowrite", {"todos": ["a", "b"]}, "todowrite", "0 of 2 completed"),
    Call(
        "Claude",
        "Task",
        {"subagent_type": "general-purpose", "description": "look", "prompt": "find it"},
        "task",
        "the subagent's report",
    ),
    Call("Claude", "Skill", {"skill": "hello"}, "skill", "Say hello."),
    # plain, and yet not done
    Call(
        "Cursor",
        "edit_file",
        {"target_file": "src/app.py", "instructions": "say Hi", "code_edit": "# ... existing code ...\n"},
        refused="give old_string and new_string",
    ),
    Call("GPT", "shell", {"command": "pwd", "workdir": "src"}, refused="write cd src && "),
    Call("Gemini", "read_many_files", {"paths": ["README.md", "old.txt"]}, refused="make a call for each"),
    Call("small", "read", {"paht": "README.md"}, refused="do you mean path?"),
    # not plain
    Call(
        "any",
        "write",
        {"path": "old.txt", "content": "more\n", "append": True},
        refused="use edit",
        plain=False,
    ),
    Call(
        "any",
        "edit",
        {"path": "old.txt", "old_string": "old", "new_string": "x", "dry_run": True},
        refused="dry_run",
        plain=False,
    ),
    Call("any", "bash", {"command": "touch made", "cwd": "/tmp"}, refused="cd /tmp && ", plain=False),
    Call("any", "bash", {"command": ["touch made", "ls"]}, refused="join several commands", plain=False),
    Call("any", "bash", {"command": "touch made", "dry_run": True}, refused="unknown dry_run", plain=False),
    Call("any", "bash", {"command": "touch made", "user": "root"}, refused="unknown user", plain=False),
    Call("any", "edit", {"path": "old.txt", "content": "whole\n"}, refused="use write", plain=False),
    Call(
        "any",
        "edit",
        {"path": "a", "file_path": "b", "old_string": "x", "new_string": "y"},
        refused="given twice",
        plain=False,
    ),
    Call("any", "search_files", {"pattern": "TODO"}, refused="use grep", plain=False),
    Call(
        "any",
        "glob",
        {"pattern": "**/*.js", "respect_git_ignore": False},
        refused="bash with find",
        plain=False,
    ),
    Call("any", "Task", {"prompt": "find it"}, refused="missing agent", plain=False),
    Call("any", "github.read", {"path": "README.md"}, refused="there is no tool 'github.read'", plain=False),
    Call("any", "mcp__files__read", {"path": "README.md"}, refused="there is no tool", plain=False),
    Call("any", "raed", {"path": "README.md"}, refused="do you mean read?", plain=False),
    Call("any", "attempt_completion", {"result": "done"}, refused="answer in plain text", plain=False),
    Call("any", "web_search", {"query": "python"}, refused="fetch gets a page", plain=False),
    Call("any", "python", {"code": "print(1)"}, refused="use bash", plain=False),
    Call(
        "any",
        "str_replace_editor",
        {"command": "undo_edit", "path": "src/app.py"},
        refused="view, create, str_replace",
        plain=False,
    ),
    Call(
        "any",
        "edit",
        {"path": "src/app.py", "old_string": "return f'Hello %s'", "new_string": "x"},
        refused='5\t    return f"Hello',
        plain=False,
    ),
    Call("any", "list", {"path": "lib/util"}, refused="did you mean src/util?", plain=False),
    Call(
        "any",
        "insert",
        {"path": "old.txt"},
        refused="there is no tool 'insert'; do you mean edit?",
        plain=False,
    ),
    Call("any", "zzz", {}, refused="there is no tool 'zzz'; the tools are ", plain=False),
    Call(
        "any", "bash", '{"command": "ls", "timeout": 12', refused="bracket is missing; the text", plain=False
    ),
    Call(
        "any", "delete_file", {"path": "old.txt", "recursive": True}, refused="unknown recursive", plain=False
    ),
    Call("any", "write", '{"path": "old.txt", "content": "cut', refused="not usable", plain=False),
]
