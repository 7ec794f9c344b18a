"""Destructive and privileged commands, which always prompt."""

from __future__ import annotations

from coder.policy.programs import git as git_rules
from coder.policy.programs import names
from coder.policy.shell.words import Word
from coder.texts import Phrase

_DELETES = "policy.risk.deletes"
_RIGHTS = "policy.risk.rights"
_STOPS = "policy.risk.stops"
_SYSTEM = "policy.risk.system"
_DISKS = "policy.risk.disks"

_NAMES: dict[str, str] = {
    **dict.fromkeys(names("rm rmdir unlink shred truncate mv ln srm wipe rename"), _DELETES),
    **dict.fromkeys(names("chmod chown chgrp chattr setfacl"), _RIGHTS),
    **dict.fromkeys(
        names("shutdown reboot halt poweroff init telinit kill killall pkill skill killall5"), _STOPS
    ),
    **dict.fromkeys(
        names(
            """
        systemctl service launchctl crontab at batch iptables ip6tables nft ufw useradd userdel usermod
        groupadd groupdel adduser deluser passwd chpasswd chsh visudo mount umount insmod rmmod modprobe
        sysctl chroot swapon swapoff setcap update-rc.d
        """
        ),
        _SYSTEM,
    ),
    **dict.fromkeys(
        names(
            """
        dd mkfs mke2fs fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mkswap losetup
        cryptsetup lvremove vgremove pvremove zfs zpool hdparm diskutil format
        """
        ),
        _DISKS,
    ),
}
_FAMILIES: dict[str, frozenset[str]] = {
    "docker": frozenset({"rm", "rmi", "kill", "prune", "stop"}),
    "podman": frozenset({"rm", "rmi", "kill", "prune", "stop"}),
    "kubectl": frozenset({"delete", "drain"}),
    "terraform": frozenset({"destroy"}),
    "helm": frozenset({"uninstall", "delete"}),
    "npm": frozenset({"unpublish"}),
}
PRIVILEGED = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "run0"})


def base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def is_destructive(name: str) -> bool:
    """Whether this program is destructive whatever its arguments."""
    plain = base_name(name)
    return plain in _NAMES or plain.startswith("mkfs.")


def danger_of(name: str, args: list[Word]) -> Phrase | None:
    """The risk of this command, or None."""
    plain = base_name(name)
    if plain in PRIVILEGED:
        return Phrase("policy.risk.privileged", name=plain)
    if is_destructive(plain):
        return Phrase(_NAMES.get(plain, _DISKS), name=plain)
    if plain == "git":
        what = git_rules.danger(args)
        return Phrase("policy.risk.git", what=what) if what else None
    words = {word.text for word in args[:3] if word.exact}
    if plain in _FAMILIES and words & _FAMILIES[plain]:
        return Phrase("policy.risk.removes", name=plain, word=min(words & _FAMILIES[plain]))
    if plain == "find" and any(word.text == "-delete" for word in args):
        return Phrase("policy.risk.find_deletes")
    if plain == "find" and any(word.text.startswith(("-fprint", "-fls")) for word in args):
        return Phrase("policy.risk.find_writes")
    if plain == "rsync" and any(word.text.startswith(("--del", "--remove")) for word in args):
        return Phrase("policy.risk.rsync")
    return None
