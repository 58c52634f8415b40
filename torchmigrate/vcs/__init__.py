"""Git, through one hardened door."""
