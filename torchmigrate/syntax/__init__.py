"""Analyse Python syntax trees: scopes and bindings, qualified names, patterns and templates."""
