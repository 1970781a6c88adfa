"""What each released verl accepts: its keys with their defaults, without that verl being installed."""
