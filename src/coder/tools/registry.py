"""The tools there are, in the order the model is told of them."""

from __future__ import annotations

from coder.tools.base import Tool
from coder.tools.bash import Bash
from coder.tools.edit import Edit
from coder.tools.fetch import Fetch
from coder.tools.glob import Glob
from coder.tools.grep import Grep
from coder.tools.job import JobTool
from coder.tools.list import List
from coder.tools.patch import Patch
from coder.tools.read import Read
from coder.tools.save_memory import MemoryFile, SaveMemory
from coder.tools.skill import Skill, SkillSource
from coder.tools.task import Task
from coder.tools.todo import TodoRead, TodoWrite
from coder.tools.write import Write


def built_in_tools(skills: SkillSource, memory: MemoryFile) -> list[Tool]:
    return [
        Read(),
        List(),
        Glob(),
        Grep(),
        Write(),
        Edit(),
        Patch(),
        Bash(),
        JobTool(),
        TodoRead(),
        TodoWrite(),
        Task(),
        Skill(skills),
        SaveMemory(memory),
        Fetch(),
    ]
