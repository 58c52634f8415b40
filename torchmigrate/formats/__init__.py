"""Formatters: a report as text, JSON, SARIF, Markdown and what CI systems read."""
