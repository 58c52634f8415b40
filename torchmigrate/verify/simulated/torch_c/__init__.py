"""What a simulated device puts in the place of torch's compiled parts."""
