"""The model gateway: carries an agent's calls to its model, with the key outside the sandbox, metered and recorded."""
