"""Read files as text: encodings, edits and offsets, notebooks, JSON and other text files."""
