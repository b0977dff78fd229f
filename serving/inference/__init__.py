"""The answers: Predict, Classify, Regress, MultiInference and Rank."""
