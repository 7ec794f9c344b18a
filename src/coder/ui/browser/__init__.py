"""Records for a browser: HTML of a session, the local server of `coder view`, and files to pass on.

Reads records; changes nothing. All text of a record is escaped here, in one place (`html/escape.py`).
"""
