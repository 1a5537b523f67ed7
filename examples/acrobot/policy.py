"""Pump energy into the swing: push the joint in the direction in which the inner link is moving."""


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        velocity = obs[4]
        return 2 if velocity < 0 else 0
