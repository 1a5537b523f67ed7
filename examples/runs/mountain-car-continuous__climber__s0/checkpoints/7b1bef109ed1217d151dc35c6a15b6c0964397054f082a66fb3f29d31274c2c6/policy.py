class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.last = [0.0]

    def reset(self, episode_index):
        self.last = [0.0]

    def act(self, obs):
        return [5.49 * obs[1]]
