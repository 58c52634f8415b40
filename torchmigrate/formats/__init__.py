"""Formats: a result as text, JSON, SARIF, Markdown, diffs, and in the formats of CI systems."""
