"""The differential fuzzer of the shell's verdict: lines that are judged read-only are really run.

`grammar.py` and `mutation.py` make lines, `chamber.py` runs them where they can harm nothing and sees what
they did, `campaign.py` compares that with the verdict. `./dev fuzz` runs it for long.
"""
