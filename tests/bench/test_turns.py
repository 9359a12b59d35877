"""Ways take turns."""

from bench.sections.steps import choose_budget
from bench.turns import Budget, Player, choose_pace, choose_steps, take_turns


class Clock:
    """Time that passes only when somebody plays."""

    def __init__(self):
        self.now = 0.0
        self.order = []

    def make_player(self, name, seconds, pace=1):
        def play():
            self.order.append(name)
            self.now += seconds
            return seconds

        return Player(play, pace)


def take(clock, players, budget):
    return take_turns(players, budget, clock=lambda: clock.now, sleep=lambda seconds: None)


def test_each_round_starts_with_another_way():
    clock = Clock()
    players = {name: clock.make_player(name, 1.0) for name in ("a", "b", "c")}
    take(clock, players, Budget(rounds=3))
    assert "".join(clock.order) == "abcbcacab"


def test_a_slow_way_sits_rounds_out():
    clock = Clock()
    players = {"quick": clock.make_player("quick", 1.0), "slow": clock.make_player("slow", 3.0, pace=3)}
    seconds = take(clock, players, Budget(rounds=4))
    assert seconds == {"quick": [1.0] * 4, "slow": [3.0, None, None, 3.0]}


def test_turns_end_when_the_time_is_over_but_not_before_the_minimum():
    clock = Clock()
    players = {"a": clock.make_player("a", 10.0)}
    assert len(take(clock, players, Budget(rounds=20, minimum_rounds=3, seconds=5))["a"]) == 3
    assert len(take(clock, players, Budget(rounds=20, minimum_rounds=3, seconds=65))["a"]) == 7


def test_the_host_is_measured_after_every_round():
    clock, rounds = Clock(), []
    take_turns(
        {"a": clock.make_player("a", 1.0)},
        Budget(rounds=4),
        after_round=lambda: rounds.append(clock.now),
        clock=lambda: clock.now,
        sleep=lambda seconds: None,
    )
    assert rounds == [1.0, 2.0, 3.0, 4.0]


def test_where_a_round_lasts_long_fewer_of_them_are_played():
    budget = Budget(rounds=20, minimum_rounds=5, seconds=30)
    assert choose_budget(budget, round_seconds=2.0) == budget
    assert choose_budget(budget, round_seconds=60.0).minimum_rounds == 4


def test_a_turn_of_the_quickest_way_lasts_a_tenth_of_a_second():
    assert choose_steps({"a": 0.004, "b": 0.040}) == 25
    assert choose_steps({"a": 2.0, "b": 3.0}) == 1


def test_a_way_that_is_as_quick_as_the_others_plays_in_every_round():
    assert choose_pace(1.0, 4.0) == 1
    assert choose_pace(2.5, 1.0) == 1


def test_a_way_that_is_far_slower_than_all_others_sits_rounds_out():
    assert choose_pace(40.0, 8.0) == 3
