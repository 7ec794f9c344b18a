"""Parts that the core does not need. They use public doors only; each directory can be deleted."""

from coder.base.addons import addons

addons()  # makes their texts known
