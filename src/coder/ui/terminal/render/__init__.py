"""What a person sees: events to rows, rows to scrollback and to the live region."""
