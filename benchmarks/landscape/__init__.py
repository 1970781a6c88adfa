"""Recorded landscapes of real jobs, and what reads them."""
