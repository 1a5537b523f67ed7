"""An agent that submits nothing and stops. Its run ends as `no_ok_submit`."""

if __name__ == "__main__":
    print("nop: nothing to do")
