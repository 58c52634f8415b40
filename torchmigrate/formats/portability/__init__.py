"""Formatters of the command `report`."""
