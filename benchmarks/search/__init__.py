"""GPU seconds until close to the best of a recorded landscape: ours against other searches."""
