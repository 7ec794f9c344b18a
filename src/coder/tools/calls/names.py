"""What models call our tools and parameters: the names that they were trained on elsewhere.

Names are compared as `folded` leaves them: lower case, letters and digits only."""

from __future__ import annotations


def folded(name: str) -> str:
    """`File_Path`, `file-path` and `filePath` are one name."""
    return "".join(character for character in name.lower() if character.isalnum())


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(rows: dict[str, str]) -> dict[str, str]:
    return {alias: name for name, aliases in rows.items() for alias in (folded(name), *aliases.split())}


# What may precede a tool's name, with `.`, `:`, `/` or `__` between them, and say nothing.
NAMESPACES = words(
    "functions function tools tool defaultapi default api namespace ns coder builtin builtins fs filesystem "
    "file files workspace repobrowser container local native assistant client agent"
)

TOOLS = _table(
    {
        "read": "readfile readfiles view viewfile cat openfile open fileread getfile getfilecontent "
        "getfilecontents filecontents readtextfile fsread showfile loadfile readmanyfiles viewcode "
        "viewimage readimage openimage",
        "list": "ls listdir listdirectory listfiles listfolder dir viewdirectory readdir readdirectory "
        "directorylist listdircontents getdirectorycontents printtree",
        "glob": "findfiles globfiles filesearch globsearch findfile findbyname fileglob find",
        "grep": "search searchfilecontent searchfilecontents ripgrep rg grepsearch searchcode searchtext "
        "searchcontent codesearch textsearch searchinfiles findinfiles regexsearch greprepo",
        "write": "writefile createfile writetofile savefile newfile filewrite fswrite writetextfile "
        "overwritefile filecreate createnewfile create",
        "edit": "strreplace replace searchreplace searchandreplace editfile replaceinfile multiedit fileedit "
        "replacestring stringreplace replacestringinfile multireplacestringinfile replacetext modifyfile",
        "patch": "applypatch applydiff patchfile applyunifieddiff",
        "bash": "shell runcommand executecommand runshellcommand localshell terminal exec execcommand "
        "shellcommand runterminalcmd runinterminal execute cmd sh runbash executebash bashcommand console "
        "command runterminalcommand run runshell zsh shellexec runcmd localshellcall executeshell",
        "todowrite": "updateplan writetodos todo managetodolist settodos updatetodos updatetodolist "
        "todoupdate writetodolist plan",
        "todoread": "readtodos gettodos readtodolist gettodolist",
        "task": "agent subagent delegate runsubagent spawnagent dispatchagent launchagent delegatetask",
        "skill": "useskill loadskill activateskill invokeskill skills",
        "fetch": "webfetch fetchurl httpget readurl openurl geturl urlfetch fetchwebpage readwebpage curl",
        "save_memory": "memory remember addmemory updatememory creatememory writememory storememory",
        "job": "jobs bashjob backgroundjob",
    }
)

# Tools of others that none of ours stands for: what to do instead.
INSTEAD = {
    **dict.fromkeys(
        words("attemptcompletion finalanswer finish submit done complete final respond answer"),
        "to finish, answer in plain text without a tool call",
    ),
    **dict.fromkeys(
        words("askfollowupquestion askuser askuserquestion ask askhuman"),
        "to ask the person something, put the question in your answer",
    ),
    **dict.fromkeys(words("think reflect sequentialthinking"), "think in your answer; no tool is needed"),
    **dict.fromkeys(
        words("websearch googlewebsearch searchweb google"),
        "the web cannot be searched; fetch gets a page whose address you know",
    ),
    **dict.fromkeys(words("codebasesearch semanticsearch"), "use grep with a pattern, or task with explore"),
    **dict.fromkeys(
        words("createdirectory makedirectory mkdir createfolder"),
        "write makes the folders of a file as needed; for an empty folder use bash with mkdir",
    ),
    **dict.fromkeys(words("copyfile copy cp"), "use bash with cp"),
    **dict.fromkeys(
        words("python executepython runpython codeinterpreter executecode jupyter ipython"),
        "use bash, for example python3 - <<'EOF'",
    ),
    **dict.fromkeys(words("multitooluseparallel parallel batch"), "make the calls singly, in one answer"),
    **dict.fromkeys(
        words("insert insertline insertlines inserttext insertcontent insertatline insertbefore insertafter"),
        "do you mean edit? Give a line beside the place as old_string, and the same with the new text as "
        "new_string",
    ),
    "undoedit": "edit the text back, or leave /undo to the person",
}

_PATH = """
    filepath file filename targetfile absolutepath relativepath pathname uri paths files filepaths target
    relativeworkspacepath fullpath absolutefilepath fpath
    """
_DIRECTORY = """
    dir directory folder dirpath directorypath targetdirectory folderpath searchpath root base basepath
    searchdirectory searchdir cwd targetdirectories dirname in where location
    """

PARAMETERS = {
    "read": _table(
        {
            "path": _PATH,
            "offset": "startline linestart start fromline from line linenumber startlineoneindexed firstline "
            "startlinenumber beginline begin",
            "limit": "maxlines numlines linecount nlines linelimit length count",
            "end": "endline lineend toline to endlineoneindexedinclusive lastline endlinenumber",
            "range": "viewrange linerange lines",
        }
    ),
    "list": _table({"path": _DIRECTORY + _PATH, "recursive": "r"}),
    "glob": _table(
        {
            "pattern": "glob globpattern query name filepattern pathpattern search patterns filenamepattern "
            "namepattern include",
            "path": _DIRECTORY + "filepath",
        }
    ),
    "grep": _table(
        {
            "pattern": "query regex regexp search searchpattern searchterm searchstring text term q keyword "
            "string expression searchquery",
            "path": _DIRECTORY + _PATH,
            "glob": "include includepattern filepattern fileglob includes globs globpattern",
            "max_matches": "headlimit limit maxresults maxcount m maxnumresults",
            "context": "c contextlines linesofcontext a b aftercontext beforecontext after before",
            "ignore_case": "i ignorecase caseinsensitive insensitive",
            "type": "filetype lang language",
            "literal": "fixedstrings fixedstring fixed f isliteral",
            "is_regex": "useregex isregexp",
            "case_sensitive": "matchcase",
            "multiline": "u",
            "output_mode": "mode output",
            "files_only": "l fileswithmatches namesonly filesonly",
        }
    ),
    "write": _table(
        {
            "path": _PATH,
            "content": "contents text filetext data body code filecontent filecontents newcontent",
        }
    ),
    "edit": _table(
        {
            "path": _PATH,
            "old_string": "oldstring oldstr oldtext old oldcontent search find searchstring original "
            "originaltext before searchtext oldcode findtext targettext targetcontent",
            "new_string": "newstring newstr newtext new newcontent replace replacement replacewith after "
            "replacementtext newcode replacestring updated replacementcontent",
            "replace_all": "replaceall all allowmultiple global multiple",
            "edits": "changes replacements modifications operations replacementchunks",
            "diff": "diff blocks searchreplaceblocks",
            "expected": "expectedreplacements expectedoccurrences occurrences",
        }
    ),
    "patch": _table(
        {"patch": "input diff patchtext content text unifieddiff patchcontent", "path": _PATH}
        | {"dry_run": "dryrun checkonly"}
    ),
    "bash": _table(
        {
            "command": "cmd script commandline code input shellcommand bashcommand commands line args argv",
            "timeout_ms": "timeoutms timeoutmillis timeoutmilliseconds",
            "timeout_s": "timeoutseconds timeoutsecs timeoutsec",
            "timeout": "",
            "background": "runinbackground isbackground",
            "cwd": "workdir workingdirectory workingdir dir directory folder currentdirectory path",
        }
    ),
    "todowrite": _table({"todos": "items tasks plan list todolist todo steps newtodos"}),
    "todoread": {},
    "task": _table(
        {
            "agent": "subagenttype agenttype type name subagent agentname",
            "objective": "prompt task instructions goal query message input",
        }
    ),
    "skill": _table({"name": "skill skillname command"}),
    "fetch": _table(
        {"url": "uri link address href urls", "max_chars": "maxlength maxcharacters limit", "prompt": "query"}
    ),
    "save_memory": _table({"fact": "memory content text note facts"}),
    "job": _table({"id": "jobid bashid shellid taskid", "timeout_ms": "timeoutms"}),
}

# Said beside a call for whoever reads along: it changes nothing about the call.
HARMLESS = words(
    "description explanation reason reasoning rationale thought thoughts purpose intent justification "
    "comment summary tooluseid toolcallid callid requiresapproval safetoautorun "
    "taskprogress toolsummary toolaction waitforprevioustools securityrisk instruction "
    "instructions goal prefixrule sideeffects"
)

# Arguments that ask for what a tool does anyway; with another value they would matter.
_EITHER, _YES, _UTF8 = (True, False), (True,), ("utf-8", "utf8")
AS_IT_IS: dict[str, dict[str, tuple[object, ...]]] = {
    "read": dict.fromkeys(("showlinenumbers", "linenumbers", "shouldreadentirefile"), _EITHER)
    | {"wholefile": _YES, "encoding": _UTF8},
    "list": dict.fromkeys(("showhidden", "includehidden", "hidden", "all", "respectgitignore"), _YES)
    | {"depth": (1,), "maxdepth": (1,)},
    "glob": dict.fromkeys(("casesensitive", "respectgitignore", "recursive"), _YES)
    | {"type": ("file", "f", "files")},
    "grep": {"n": _EITHER, "linenumbers": _EITHER, "h": _EITHER}
    | dict.fromkeys(("respectgitignore", "recursive", "r"), _YES),
    "write": dict.fromkeys(
        ("overwrite", "createdirs", "createdirectories", "makedirs", "mkdirs", "createparents"), _YES
    )
    | {"encoding": _UTF8, "mode": ("w", "write", "overwrite", "create", "rewrite")},
    "fetch": {"method": ("GET", "get"), "format": ("text", "markdown"), "raw": (False,)},
    "bash": {"shell": (True, "bash", "/bin/bash"), "interactive": (False,)},
}
# A `false` that asks for something: the others are as good as not given.
FALSE_MATTERS = words(
    "overwrite respectgitignore casesensitive isregex useregex isregexp regex wait blocking createdirs"
)

# Why an argument that could matter is not passed over.
REFUSED = {
    ("write", "append"): "write replaces the whole file; to add to it, use edit",
    ("write", "overwrite"): "write always replaces an existing file; read it first",
    ("list", "depth"): "list shows one level; use glob with ** for more",
    ("list", "maxdepth"): "list shows one level; use glob with ** for more",
    ("grep", "respectgitignore"): "ignored files are not searched; use bash with grep for them",
    ("glob", "respectgitignore"): "ignored files are not searched; use bash with find for them",
    ("glob", "casesensitive"): "names are compared with their case; write [aA] for either",
    ("edit", "codeedit"): "a sketch of the new code cannot be applied; give old_string and new_string",
    ("edit", "content"): "to replace the whole file, use write",
    ("edit", "dryrun"): "edit has no dry run; patch has one",
    ("edit", "startline"): "edit goes by text, not by lines; give old_string and new_string, or use patch",
    ("fetch", "method"): "only GET is possible",
}

FILE_TYPES = {
    "python": "py", "javascript": "js", "typescript": "ts", "rust": "rs", "ruby": "rb", "markdown": "md",
    "kotlin": "kt", "csharp": "cs", "shell": "sh", "c++": "cpp",
}  # fmt: skip

STATUSES = {
    **dict.fromkeys(words("inprogress doing active started current"), "in_progress"),
    **dict.fromkeys(words("done complete finished completed"), "completed"),
    **dict.fromkeys(words("todo notstarted open pending"), "pending"),
    **dict.fromkeys(words("cancelled canceled skipped"), "cancelled"),
}

AGENTS = {
    **dict.fromkeys(words("general generalpurpose default worker"), "general"),
    **dict.fromkeys(words("explore explorer search codesearch research"), "explore"),
}
