"""The mathematics as pure functions on tensors; nothing here imports more than torch."""
