"""What is found: findings with their fixes, the result of a file, and comments that suppress findings."""
