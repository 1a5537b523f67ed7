"""The policy that carries an attack into the jail: it says 1 when the attack has succeeded, 0 when it has not.

`attack()` may also return a whole action of its own, for attacks that are the action.
"""

import attack
import kit

WHEN = getattr(attack, "WHEN", "act")
NOTHING = [0.0, 0.0]


class Policy:
    result = attack.attack() if WHEN == "import" else False

    def __init__(self, obs_space, action_space, env_meta):
        if WHEN == "init":
            self.result = attack.attack()

    def reset(self, episode_index):
        if WHEN == "reset":
            self.result = attack.attack()

    def act(self, obs):
        kit.step, kit.episode = map(int, obs)
        if WHEN == "every act" or (WHEN == "act" and kit.step == 0):
            self.result = attack.attack()
        return (int(self.result), NOTHING) if isinstance(self.result, bool) else self.result
