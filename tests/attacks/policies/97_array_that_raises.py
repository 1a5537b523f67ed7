"""Acts with an object whose conversion to an array raises what nobody expects."""

EXPECT = "act_error"
CONTROL = "same"


class Action:
    def __array__(self, *_: object, **__: object) -> object:
        raise GeneratorExit


def attack():
    return Action(), Action()
