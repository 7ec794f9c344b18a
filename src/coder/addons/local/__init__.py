"""`--model local`: a small open model, fetched once and served in a child process."""
