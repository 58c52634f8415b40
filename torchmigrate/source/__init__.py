"""Files as text: encoding, edits and offsets, notebooks, JSON and other text files."""
