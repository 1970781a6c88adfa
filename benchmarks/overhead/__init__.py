"""What the controller itself costs for a trial and a metric row, and how that grows."""
