"""Rewrite one file in memory: visit it, apply fixes until nothing changes, keep guards and what they guard together."""
