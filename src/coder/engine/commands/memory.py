"""What `/skills` and `/memory` answer: the same things that the model sees, in words for the person."""

from __future__ import annotations

import msgspec

from coder.context.memory import Memory, note_of
from coder.context.skills import SkillInfo, Skills
from coder.texts import Joined, Phrase, Said, shortened
from coder.tools.save_memory import NotSaved, Scope

_WIDTH = 160  # characters of a description; the whole stands in its file


class Answer(msgspec.Struct, frozen=True):
    """Text for the person; `note` is for the model, with the person's next message."""

    text: Said
    ok: bool = True
    note: str = ""


def skills_answer(skills: Skills) -> Answer:
    """All skills with where they come from, then the broken ones with file and reason."""
    skills.scan()
    found = skills.all()
    width = max((len(skill.name) for skill in found), default=0)
    lines: list[Said] = [
        f"{skill.name.ljust(width)}  [" + Phrase(f"skills.origin.{skill.origin}") + "] " + _about(skill)
        for skill in found
    ]
    broken = skills.broken()
    if broken:
        lines += ["", Phrase("skills.broken", n=len(broken))]
        lines += [f"  {one.file}: " + one.reason for one in broken]
    return Answer(Joined(lines or [Phrase("skills.none")]))


def _about(skill: SkillInfo) -> Said:
    """A skill of a person's is told in their words, our own in their language."""
    return (
        Phrase(f"skills.about.{skill.name}")
        if skill.origin == "built-in"
        else shortened(skill.description, _WIDTH)
    )


def memory_answer(memory: Memory, args: str) -> Answer:
    """`/memory`, `/memory add [--home] FACT`, `/memory forget N`."""
    word, _, rest = args.strip().partition(" ")
    try:
        if not word or (word in ("show", "list") and not rest.strip()):
            return _shown(memory)
        if word == "add":
            return _added(memory, rest.strip())
        if word in ("forget", "remove"):
            return _forgotten(memory, rest.strip())
    except NotSaved as reason:
        return Answer(Phrase("memory.not_saved", reason=reason.phrase), ok=False)
    return Answer(Phrase("memory.usage"), ok=False)


def _shown(memory: Memory) -> Answer:
    facts = memory.facts()
    if not facts:
        return Answer(Phrase("memory.none", project=memory.path("project"), home=memory.path("home")))
    lines: list[Said] = []
    scope: Scope | None = None
    for fact in facts:
        if fact.scope != scope:
            scope = fact.scope
            lines.append(Phrase(f"memory.{scope}") + f" ({memory.path(scope)})")
        lines.append(f"  {fact.number}. {fact.text}")
    return Answer(Joined(lines))


def _added(memory: Memory, text: str) -> Answer:
    scope: Scope = "home" if text == "--home" or text.startswith("--home ") else "project"
    fact = text.removeprefix("--home").strip() if scope == "home" else text
    if not fact:
        return Answer(Phrase("memory.usage"), ok=False)
    saved = memory.save(fact, scope)
    if not saved.added:
        return Answer(Phrase("memory.known", fact=saved.fact))
    return Answer(Phrase("memory.added", fact=saved.fact, path=saved.path), note=note_of(saved))


def _forgotten(memory: Memory, text: str) -> Answer:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    if not number:
        return Answer(Phrase("memory.usage"), ok=False)
    fact = memory.forget(number)
    if fact is None:
        return Answer(Phrase("memory.missing", number=number), ok=False)
    note = f"The person removed from the memory; it no longer holds: {fact.text}"
    return Answer(Phrase("memory.forgotten", fact=fact.text), note=note)
