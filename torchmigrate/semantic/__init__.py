"""One Python file, understood: its semantic model and the questions that fixers ask of it."""
