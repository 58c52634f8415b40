"""Surveys that read a project and rewrite nothing: API catalog usage, portability, effective settings."""
