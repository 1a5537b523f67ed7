"""The jail of policies: one fresh, confined process per episode, and the trusted side that talks to it."""
