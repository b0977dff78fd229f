"""The simulated marketplace: data whose true probabilities, and so the best AUC, are known."""
