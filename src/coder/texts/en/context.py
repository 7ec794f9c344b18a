"""What goes into the context, what cannot, and where its tokens go, in English."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    # skills that cannot be used
    "context.skill.binary": "It is not a text file.",
    "context.skill.description": "It has no description, so nothing would tell when to use it.",
    "context.skill.head": "It has no frontmatter: the first line must be ---.",
    "context.skill.irregular": "It is not a file.",
    "context.skill.large": "It has {size} bytes; at most {limit} are read.",
    "context.skill.link": "It is a link that leads out of the project.",
    "context.skill.name": "Its name may have letters, digits and hyphens only, at most {limit}.",
    "context.skill.other_name": "Its name is {name}, but its folder is {directory}; they must be the same.",
    "context.skill.unreadable": "It cannot be read: {why}.",
    # files that are read at the start of a session
    "context.file.binary": "{path} is not a text file and is not read.",
    "context.file.cut": "{path} is longer than {limit} bytes; the rest is not read.",
    "context.file.full": "{path} is not read: the files before it fill the {limit} bytes there are.",
    "context.file.irregular": "{path} is not an ordinary file and is not read.",
    "context.file.large": "{path} is larger than {limit} bytes and is not read; remove what no longer holds.",
    "context.file.link": "{path} is a link that leads out of the project and is not read.",
    "context.file.unreadable": "{path} cannot be read: {why}.",
    # the line to the editor
    "context.ide.connected": "{name} is connected. The model is told what is open there ({n}):",
    "context.ide.cursor": "{path}, line {line}",
    "context.ide.none": (
        "Editor: {state}. One that runs a companion extension (such as Gemini C"
        "LI Companion) and has this folder open is found within 15 seconds."
    ),
    "context.ide.off": (
        "No editor is listened to. `/ide on` does so from now on, `ide.enabled` in {file} always."
    ),
    "context.ide.selected": ", {n} characters selected",
    "context.ide.usage": "/ide shows the editor; /ide on and /ide off say whether one is listened to.",
    "context.ide.no_answer": "the editor gave no answer to {method}",
    "context.ide.not_yours": "no program of yours listens on port {port}",
    "context.ide.says": "the editor says: {why}",
    "context.ide.status": "the companion answers {status}",
    "context.ide.unreachable": "the companion cannot be reached: {why}",
    # /context
    "context.part.assistant": "answers",
    "context.part.environment": "environment",
    "context.part.instructions": "instructions (AGENTS.md, modes)",
    "context.part.memory": "memory",
    "context.part.result": "results of {tool}",
    "context.part.skills": "skills' index",
    "context.part.summary": "summary and ledger",
    "context.part.system": "system prompt",
    "context.part.tools": "tool definitions",
    "context.part.user": "messages of the person, notes",
    # facts that are not kept
    "context.memory.empty": "the fact is empty; give one plain sentence",
    "context.memory.link": "{path} is a link that leads elsewhere; it is not written",
    "context.memory.long": (
        "the fact has {length} characters; keep it to one sentence of at most {limit}, and put longer text "
        "into AGENTS.md or a skill"
    ),
    "context.memory.secret": (
        "this looks like a password or key; the memory file is plain text and sent with every session. "
        "Remember where the secret is kept, not the secret"
    ),
    "context.memory.unwritable": "{path} cannot be written: {why}",
}
