"""The collection `novel`: tasks that are drawn from a secret key, so that no model can have seen them."""
