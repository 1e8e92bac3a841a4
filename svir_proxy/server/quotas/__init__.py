"""What each holder of a key may ask for, and how that is counted: in memory, or in a store that proxies share."""
