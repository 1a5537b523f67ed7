class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.last = 0

    def reset(self, episode_index):
        self.last = 0

    def act(self, obs):
        swing = obs[4] + 0.6 * obs[5]
        return 2 if swing < 0.4 else 0
