"""Full-text search and statistics over recorded sessions. Derived from the logs, never needed to run one."""
