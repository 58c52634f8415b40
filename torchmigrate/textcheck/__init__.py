"""Check files that are not Python with text rules; these files are never rewritten."""
