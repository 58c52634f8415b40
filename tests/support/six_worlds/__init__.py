"""Judge what a program decides on six machines, before and after a migration, by running it on a fake torch."""
