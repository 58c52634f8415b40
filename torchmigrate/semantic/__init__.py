"""Understand one Python file: its semantic model, and the questions that fixers ask of it."""
