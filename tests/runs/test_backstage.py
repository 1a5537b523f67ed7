"""What is left of an agent's things when its run is over."""

from __future__ import annotations

from evopolicygym.judge.place import Place
from evopolicygym.runs.backstage import forget_logins


def test_a_login_does_not_stay_in_a_run_that_is_over(tmp_path):
    place = Place(tmp_path)
    login, other = (tmp_path / "agent" / "home" / ".codex" / name for name in ("auth.json", "sessions.json"))
    login.parent.mkdir(parents=True)
    for path in (login, other):
        path.write_text("{}")
    forget_logins(place, str(tmp_path / "gone.toml"))
    assert login.exists()
    forget_logins(place, "codex")
    assert not login.exists() and other.exists()
