"""Commands that destroy, stop or hand over more than a person would want to happen unasked."""

from __future__ import annotations

from coder.policy import git_rules
from coder.policy.names import names
from coder.policy.words import Word

_DELETES = "can delete or overwrite files for good"
_RIGHTS = "changes who may use files"
_STOPS = "stops processes or the system"
_SYSTEM = "changes the system itself"
_DISKS = "can destroy disks and file systems"

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
    """The program's own name, without its folder."""
    return path.rsplit("/", 1)[-1]


def is_destructive(name: str) -> bool:
    """Whether a program of this name destroys or stops things whatever its arguments."""
    plain = base_name(name)
    return plain in _NAMES or plain.startswith("mkfs.")


def danger_of(name: str, args: list[Word]) -> str:
    """The risk of this one command in a sentence, or nothing."""
    plain = base_name(name)
    if plain in PRIVILEGED:
        return f"{plain} runs a command with another user's rights."
    if is_destructive(plain):
        return f"{plain} {_NAMES.get(plain, _DISKS)}."
    if plain == "git":
        what = git_rules.danger(args)
        return f"This git command {what}." if what else ""
    words = {word.text for word in args[:3] if word.exact}
    if plain in _FAMILIES and words & _FAMILIES[plain]:
        return f"{plain} {min(words & _FAMILIES[plain])} removes or stops things."
    if plain == "find" and any(word.text == "-delete" for word in args):
        return "find -delete deletes files."
    if plain == "find" and any(word.text.startswith(("-fprint", "-fls")) for word in args):
        return "find writes its output over a file."
    if plain == "rsync" and any(word.text.startswith(("--del", "--remove")) for word in args):
        return "rsync deletes files."
    return ""
