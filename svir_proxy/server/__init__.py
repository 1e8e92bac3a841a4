"""Everything that touches the network."""
