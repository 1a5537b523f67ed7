class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.last = [0.0]

    def reset(self, episode_index):
        self.last = [0.0]

    def act(self, obs):
        if obs[0] > 0.2 and obs[1] > 0.03:
            return [0.0]
        return [0.6 if obs[1] > 0 else -0.6]
