"""Fixers for the APIs of torch: autocast, streams, distributed, tensor types, compile."""
