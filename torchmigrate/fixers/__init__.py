"""Fixers turn a place that a rule matches into a finding with edits."""
