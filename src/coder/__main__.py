"""`python -m coder`."""

try:
    from coder.cli import main

    main()
except KeyboardInterrupt:  # before `main` could see to it
    raise SystemExit(130) from None
