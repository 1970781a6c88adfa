"""Which candidate next? Optuna studies, samplers, repairs and one-change-at-a-time moves."""
