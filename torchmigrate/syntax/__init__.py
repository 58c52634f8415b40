"""Python syntax trees: scopes and bindings, qualified names, references, patterns and templates."""
