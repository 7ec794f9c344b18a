"""Destructive and privileged commands, which always prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coder.policy.programs import git_rules, names
from coder.policy.shell.words import Word
from coder.texts import Text

_DISKS = "policy.risk.disks"
_NAMES = {
    name: risk
    for risk, listed in {
        "policy.risk.deletes": "rm rmdir unlink shred truncate mv ln srm wipe rename",
        "policy.risk.rights": "chmod chown chgrp chattr setfacl",
        "policy.risk.stops": "shutdown reboot halt poweroff init telinit kill killall pkill skill killall5",
        "policy.risk.system": """
            systemctl service launchctl crontab at batch iptables ip6tables nft ufw useradd userdel usermod
            groupadd groupdel adduser deluser passwd chpasswd chsh visudo mount umount insmod rmmod modprobe
            sysctl chroot swapon swapoff setcap update-rc.d
            """,
        _DISKS: """
            dd mkfs mke2fs fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mkswap losetup
            cryptsetup lvremove vgremove pvremove zfs zpool hdparm diskutil format
            """,
    }.items()
    for name in names(listed)
}
_FAMILIES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("docker", "podman"), names("rm rmi kill prune stop")),
    "kubectl": frozenset({"delete", "drain"}),
    "terraform": frozenset({"destroy"}),
    "helm": frozenset({"uninstall", "delete"}),
    "npm": frozenset({"unpublish"}),
}
PRIVILEGED = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "run0"})


def base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def danger_of(name: str, args: list[Word]) -> Text | None:
    """The risk of this command, or None."""
    plain = base_name(name)
    if plain in PRIVILEGED:
        return Text("policy.risk.privileged", name=plain)
    if plain in _NAMES or plain.startswith("mkfs."):
        return Text(_NAMES.get(plain, _DISKS), name=plain)
    if plain == "git":
        what = git_rules.danger(args)
        return Text("policy.risk.git", what=what) if what else None
    words = {word.text for word in args[:3] if word.exact}
    if plain in _FAMILIES and words & _FAMILIES[plain]:
        return Text("policy.risk.removes", name=plain, word=min(words & _FAMILIES[plain]))
    if plain == "find" and any(word.text == "-delete" for word in args):
        return Text("policy.risk.find_deletes")
    if plain == "find" and any(word.text.startswith(("-fprint", "-fls")) for word in args):
        return Text("policy.risk.find_writes")
    if plain == "rsync" and any(word.text.startswith(("--del", "--remove")) for word in args):
        return Text("policy.risk.rsync")
    return None


class Written(NamedTuple):
    """An operand that a command writes. `entry`: it is created, removed or renamed, rather than filled.
    `into`: names of the files that are written if it is a directory. `gone`: it is removed or renamed."""

    word: Word
    entry: bool = False
    into: tuple[str, ...] = ()
    gone: bool = False


# The options under which a command writes its operands and nothing else; of short ones the letters, and a
# colon after those that take a value. Not backups, `cp --parents` or another target, which write beside them.
_OPTIONS = {
    "touch": ("acmd:r:t:", names("--no-create")),
    "tee": ("ai", names("--append")),
    "mkdir": ("pvm:", names("--parents --verbose")),
    "rmdir": ("v", names("--verbose")),
    "rm": ("dfirRv", names("--dir --force --recursive --verbose")),
    "truncate": ("cos:r:", names("--no-create")),
    "chmod": ("cfRv", names("--recursive --verbose")),
    "cp": ("afinprRuvL", names("--archive --force --no-clobber --recursive --update --verbose")),
    "mv": ("finuv", names("--force --no-clobber --update --verbose")),
    "ln": ("fsv", names("--force --symbolic --verbose")),
}
_OUTPUT_OPTIONS = {"curl": names("-o --output"), "wget": names("-O --output-document")}


def written_by(name: str, args: Sequence[Word]) -> list[Written] | None:
    """All that this command writes; None if that is not known."""
    if not all(word.exact for word in args):
        return None
    if name == "dd":
        targets = [word for word in args if word.text.startswith("of=")]
        return [Written(Word(word.text[3:], shell_text=word.shell_text)) for word in targets]
    if name in ("echo", "cat", "true", ":") or (
        name == "printf" and not any(word.text.startswith("-v") for word in args)
    ):
        return []
    if name not in _OPTIONS:
        return None
    operands = _operands(args, *_OPTIONS[name])
    return None if operands is None else _coreutils(name, operands, [word.text for word in args])


def output_files(name: str, args: Sequence[Word]) -> list[Written]:
    """The output files that a command's options name; it may write others."""
    options = _OUTPUT_OPTIONS.get(name, ())
    return [
        Written(args[at + 1])
        for at, word in enumerate(args[:-1])
        if word.exact and word.text in options and args[at + 1].exact
    ]


def _coreutils(name: str, operands: list[Word], words: list[str]) -> list[Written] | None:
    if name in ("touch", "tee", "truncate"):
        return [Written(word) for word in operands]
    if name == "chmod":
        return [Written(word) for word in operands[1:]]
    if name in ("mkdir", "rmdir", "rm"):
        return [Written(word, entry=True, gone=name != "mkdir") for word in operands]
    if len(operands) < 2:
        return None
    *sources, target = operands
    into = tuple(word.text.rstrip("/").rsplit("/", 1)[-1] for word in sources)
    if not set(into).isdisjoint(("", ".", "..")):
        return None
    if name == "mv":
        return [
            *(Written(word, entry=True, gone=True) for word in sources),
            Written(target, entry=True, into=into),
        ]
    if name == "ln":
        return [Written(target, entry=True, into=into)]
    whole = any(
        word.startswith("-") and not word.startswith("--") and set(word) & set("arR") for word in words
    )
    deep = whole or "--recursive" in words or "--archive" in words
    return [Written(target, entry=deep, into=into)]


def _operands(args: Sequence[Word], letters: str, long: frozenset[str]) -> list[Word] | None:
    """None if an option is not known."""
    found, options, skip = [], True, False
    for word in args:
        text = word.text
        if skip:
            skip = False
        elif options and text == "--":
            options = False
        elif options and text.startswith("-") and text != "-":
            if text not in long and (":" in text or not all(letter in letters for letter in text[1:])):
                return None
            valued = [f"{letter}:" in letters for letter in text[1:]] if text not in long else [False]
            if any(valued[:-1]):  # the value is in the same word: `-m755`
                return None
            skip = valued[-1]
        else:
            found.append(word)
    return found
