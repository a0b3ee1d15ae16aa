"""The rate limiter."""

from accelscope.rate_limit import Rate, RateLimiter


def test_a_bucket_empties_and_refills() -> None:
    limiter = RateLimiter(Rate(per_second=2.0, burst=3))
    assert [limiter.take("", 10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert limiter.take("", 10.25) == 0.25
    assert limiter.wait("", 10.25) == 0.25
    assert limiter.take("", 10.5) == 0
    assert limiter.take("", 10.5) == 0.5
    assert [limiter.take("", 1000.0) for _ in range(4)] == [0, 0, 0, 0.5]  # never more than the burst


def test_a_clock_that_goes_backwards_adds_no_tokens() -> None:
    limiter = RateLimiter(Rate(per_second=1.0, burst=1))
    assert [limiter.take("", now) for now in (10.0, 5.0, 10.0)] == [0, 1.0, 1.0]


def test_each_key_has_a_bucket_and_the_least_recently_used_is_dropped() -> None:
    limiter = RateLimiter(Rate(per_second=1.0, burst=1), keys_limit=2)
    assert [limiter.take(key, 0.0) for key in ("a", "a", "b", "b", "a")] == [0, 1.0, 0, 1.0, 1.0]
    assert limiter.take("c", 0.0) == 0  # drops b
    assert [limiter.take(key, 0.0) for key in ("a", "b")] == [1.0, 0]
