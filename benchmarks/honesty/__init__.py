"""How often a study of noise is called a gain, and how well planted gains are found and told."""
