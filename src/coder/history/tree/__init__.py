"""The workspace's tree before and after a command: scanned, indexed, stored, watched."""
