"""The simulated marketplace: data with known true probabilities, and so a known best AUC."""
