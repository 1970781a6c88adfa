"""What does a stage want? Its next move, its objective, its acceptance, its hand-over. Pure functions."""
