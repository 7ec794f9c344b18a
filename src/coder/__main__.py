"""`python -m coder`."""

from coder.cli import main

main()
