"""Replace torch's compiled parts on simulated devices, mostly for the C++ tier."""
